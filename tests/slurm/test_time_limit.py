"""Before the time limit the work stops at a checkpoint, and another job goes on with it."""

import json
import re

from tests.local.local_run import until
from tests.slurm.cluster import Cluster
from tests.slurm.slurm_run import SlurmRun

CONFIG = {
    "data_designer": {
        "columns": [
            {"name": "number", "column_type": "sampler", "sampler_type": "uuid", "params": {}},
            {"name": "text", "column_type": "llm-text", "model_alias": "m", "prompt": "Write about {{ number }}."},
        ]
    }
}


def test_follow_up_jobs_go_on_until_all_records_are_there(cluster: Cluster) -> None:
    run = SlurmRun(
        cluster,
        {},
        client={"cpus": 4},
        builder={"inline": CONFIG},
        invocation={"num_records": 12, "run_config": {"buffer_size": 2}},
        on_time_limit={"resume": "auto", "margin": "1m"},
    )
    job = run.submit({"ttft_ms": 1500})
    _out_of_time(cluster, run, job.id, job.attempt(1))
    assert job.ended() == "FAILED"
    assert job.record(1)["state"] == "INTERRUPTED"
    found = re.search(r"job (\d+) goes on after this one \(follow-up 1\)", job.story(1))
    assert found, job.log()
    assert cluster.wait(found[1], timeout_s=120) == "COMPLETED", job.log()
    assert "goes on with what attempt 1 has made" in job.story(2)
    result = json.loads((job.attempt(2) / "result.json").read_text())
    assert result["records"] == 12
    assert sum(file["rows"] or 0 for file in result["files"]) == 12
    assert (job.root / "shards" / "00000" / "winner.json").exists()
    assert (job.root / "submissions" / "2" / "receipt.json").exists()


def _out_of_time(cluster: Cluster, run: SlurmRun, job: str, attempt: object) -> None:
    """What Slurm does by itself at the margin."""
    progress = attempt / "progress.json"  # type: ignore[operator]
    until(lambda: progress.exists() and json.loads(progress.read_text())["records_done"] > 0, "the first records")
    cluster.scancel("-b", "-s", "USR1", job)


def test_slurm_itself_tells_of_the_margin(cluster: Cluster) -> None:
    """``--signal`` of the batch script reaches the controller, with nothing sent by hand."""
    run = SlurmRun(
        cluster, {}, submission={"time_limit": "00:01:00"}, on_time_limit={"resume": "manual", "margin": "59s"}
    )
    job = run.submit()
    run.wait_working(job)
    assert job.ended(timeout_s=150) == "FAILED", job.log()
    assert job.record()["exit_code"] == 75
    assert "the time limit of the job is near" in job.story()
    assert "on_time_limit.resume is manual" in job.story()
