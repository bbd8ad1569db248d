"""Make the dataset of one shard with Data Designer, through its public API only (0.9.7 and 1.0 alike)."""

import glob
import os
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from data_designer.config import ResumeMode
from data_designer.interface import DatasetCreationResults

from core.client_spec import ClientSpec, DesignerWork
from core.result import Claim
from shell.client.answers import Answers
from shell.client.checkpoint import ROWS, stop_at_checkpoint
from shell.client.collect import claim_files, hand_in
from shell.client.failure import explain
from shell.client.files import files_below
from shell.client.prepare import Job, prepare
from shell.client.tables import rows_of
from shell.client.waiting import wait_for_go

EX_TEMPFAIL = 75
EX_CONFIG = 78
UNFINISHED = ("/tmp-partial-parquet-files/", "/metadata.json.tmp.")
"""What an interrupted session leaves behind."""


def run(spec: ClientSpec, work: DesignerWork, answers: Answers) -> int:
    """The exit code."""
    job = prepare(spec, work)
    if not isinstance(job, Job):
        answers.refused(job)
        return EX_CONFIG
    answers.prepared()
    if not wait_for_go():
        return EX_TEMPFAIL
    try:
        results = _create(spec, work, job, answers)
        claim = _claim(spec, results)
    except Exception as error:  # told in the error file, with its traceback in the log
        traceback.print_exception(error)
        said = explain(error)
        answers.failed(said)
        return said.exit_code
    return hand_in(spec, claim, answers)


def _create(spec: ClientSpec, work: DesignerWork, job: Job, answers: Answers) -> DatasetCreationResults:
    counted: dict[str, int] = {}

    def done(folder: str) -> int:
        for path in glob.glob(ROWS, root_dir=folder):
            if path not in counted:
                counted[path] = rows_of(os.path.join(folder, path)) or 0
        return sum(counted.values())

    stop_at_checkpoint(job.dataset_folder)
    answers.progress(done(job.dataset_folder))
    return job.designer.create(
        job.builder,
        num_records=spec.shard.records,
        dataset_name=work.invocation.dataset_name,
        resume=ResumeMode(work.invocation.resume),
        on_batch_complete=lambda path: answers.progress(done(str(Path(path).parent.parent))),
    )


def _claim(spec: ClientSpec, results: DatasetCreationResults) -> Claim:
    """Batches are the table; images, metadata and the config are claimed beside it."""
    output = spec.files.output
    start = os.path.relpath(results.artifact_storage.base_dataset_path, output)
    tables = [os.path.join(start, path) for path in sorted(glob.glob(ROWS, root_dir=os.path.join(output, start)))]
    kept = [path for path in files_below(output, start) if not any(part in path for part in UNFINISHED)]
    others = [path for path in kept if path not in tables]
    return claim_files(
        spec, tables, others, resumed=_resumed(results), made_with=f"data-designer {version('data-designer')}"
    )


def _resumed(results: DatasetCreationResults) -> Literal["never", "always", "if_possible"]:
    """What really happened: Data Designer may begin anew although it was allowed to resume."""
    mode = getattr(results, "effective_resume_mode", None) or results.artifact_storage.resume
    said = str(mode.value)
    return "never" if said == "never" else "always" if said == "always" else "if_possible"
