"""What is said where there is no allocation, or one that does not fit the plan: all of it, and nothing is started."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.local.conftest import MakeRun
from tests.local.local_run import REPOSITORY

pytestmark = pytest.mark.slow

TWO_NODES = {"resources": {"nodes": 2}, "topology": {"pipeline_parallel": 2, "nodes_per_replica": 2}}
OUTSIDE = {"[not-in-allocation]"}
JOB = {"SLURM_JOB_ID": "5"}


def commands(folder: Path, srun: str) -> str:
    """A search path with an ``srun`` that does this, and a ``scontrol`` that does not work."""
    folder.mkdir()
    for name, does in (("srun", srun), ("scontrol", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o700)
    return f"{folder}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("job", "srun", "codes"),
    [
        pytest.param({}, "echo slurm 22.05.8", OUTSIDE, id="no job"),
        pytest.param({}, "echo no configuration >&2; exit 1", OUTSIDE | {"[command-failed]"}, id="no job, no Slurm"),
        pytest.param({}, "echo slurm 19.05.1", OUTSIDE | {"[version-unfit]"}, id="no job, an old Slurm"),
        pytest.param(JOB | {"SLURM_JOB_NODELIST": ""}, "echo slurm 22.05.8", OUTSIDE, id="an empty list"),
        pytest.param(JOB | {"SLURM_JOB_NODELIST": "(null)"}, "echo slurm 22.05.8", OUTSIDE, id="no list"),
        pytest.param(JOB | {"SLURM_JOB_NODELIST": "c[1-"}, "echo slurm 22.05.8", {"[malformed]"}, id="half a list"),
        pytest.param(
            JOB | {"SLURM_JOB_NODELIST": "c[1-3]", "SLURM_JOB_NUM_NODES": "2"},
            "echo slurm 22.05.8",
            {"[node-count-mismatch]"},
            id="a list and a count that disagree",
        ),
        pytest.param(
            JOB | {"SLURM_JOB_NODELIST": "c1", "SLURM_JOB_NUM_NODES": "1"},
            '[ "$1" = --version ] && echo slurm 22.05.8',
            {"[node-count-mismatch]"},
            id="fewer nodes than planned",
        ),
    ],
)
def test_an_allocation_that_does_not_fit(
    make_run: MakeRun, tmp_path: Path, job: Mapping[str, str], srun: str, codes: set[str]
) -> None:
    run = make_run(TWO_NODES)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    environ |= {"PATH": commands(tmp_path / "bin", srun), "PYTHONPATH": str(REPOSITORY), **job}
    words = (sys.executable, "-m", "shell.run", "--run-dir", run.paths.root, "--shard-from-env")
    said = subprocess.run(words, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    told = said.stdout + said.stderr
    assert said.returncode == 78, told
    assert {word for word in told.split() if word.startswith("[") and word.endswith("]")} == codes
    assert "Traceback" not in told
    assert not any(Path(run.paths.root).rglob("events.jsonl")), "nothing was started"
    assert [json.loads(path.read_text())["state"] for path in Path(run.paths.root).rglob("attempt.json")] in (
        [],
        ["FAILED"],
    )
