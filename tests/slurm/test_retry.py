"""`dd-slurm retry` and `cancel` on a real Slurm, with output that Data Designer goes on with."""

import json
import sys
from typing import Any

import pyarrow.parquet

from tests.local.local_run import until
from tests.slurm.cluster import Cluster
from tests.slurm.options import PROJECT
from tests.slurm.slurm_run import SlurmJob, SlurmRun
from tests.slurm.test_status import states, status
from tests.slurm.test_time_limit import CONFIG


def call(job: SlurmJob, command: str, *words: str, **environ: str) -> tuple[int, dict[str, Any]]:
    """Exit code and what was said."""
    argv = (sys.executable, "-m", "shell.cli", command, str(job.root), *words, "--json")
    settings = {"PYTHONPATH": str(PROJECT), **environ}
    said = job.cluster.run(argv, env=settings, cwd=job.root, check=False, timeout_s=240)
    return said.returncode, dict(json.loads(said.stdout))


def test_cancel_then_retry_goes_on_with_what_there_is(cluster: Cluster) -> None:
    """Cancelled in the middle; the retry with resume makes the rest, and all records are there once."""
    run = SlurmRun(
        cluster,
        {"topology": {"tensor_parallel": 8}},
        client={"cpus": 4},
        builder={"inline": CONFIG},
        invocation={"num_records": 40, "run_config": {"buffer_size": 2}},
        array_tasks={"count": 2},
    )
    job = run.submit({"ttft_ms": 4000})
    progress = job.attempt(1) / "progress.json"
    until(lambda: progress.exists() and json.loads(progress.read_text())["records_done"] > 0, "the first records")
    code, said = call(job, "retry", "--dry-run")
    assert (code, [one["code"] for one in said["problems"]]) == (65, ["nothing-to-retry"])
    code, said = call(job, "cancel")
    assert (code, said["state"]) == (0, "cancelled")
    until(lambda: "settling" not in states(job), "accounting")
    assert states(job) == ["cancelled", "cancelled"]
    assert "cancelled by user" in status(job)["shards"][0]["why"]
    code, said = call(job, "retry", "--resume", "if_possible", DD_SLURM_SIMULATE="{}")
    assert (code, said["state"], said["shards"]) == (0, "submitted", [0, 1]), said
    cluster.wait_gone(said["job_id"], timeout_s=180)
    assert states(job) == ["completed", "completed"], job.log()
    assert "goes on with what attempt 1 has made" in job.story(2)
    for shard in (0, 1):
        result = json.loads((job.attempt(2, shard) / "result.json").read_text())
        assert (result["records"], result["resumed"]) == (20, "always")
    assert call(job, "cancel")[1]["state"] == "nothing"
    code, said = call(job, "merge", "--output", str(run.folder / "workspace" / "merged"))
    assert (code, said["records"], [one["attempt"] for one in said["shards"]]) == (0, 40, [2, 2]), said
    table = pyarrow.parquet.read_table(run.folder / "workspace" / "merged")
    assert len(set(table.column("number").to_pylist())) == table.num_rows == 40
