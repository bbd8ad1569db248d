"""`dd-slurm status` beside a real Slurm: what it says at every stage of an array."""

import json
import sys
import time
from typing import Any

from tests.local.local_run import until
from tests.slurm.cluster import Cluster
from tests.slurm.options import PROJECT
from tests.slurm.slurm_run import SlurmJob, SlurmRun


def status(job: SlurmJob) -> dict[str, Any]:
    words = (sys.executable, "-m", "shell.cli", "status", str(job.root), "--json")
    said = job.cluster.run(words, env={"PYTHONPATH": str(PROJECT)}, cwd=job.root, check=False)
    return dict(json.loads(said.stdout))


def states(job: SlurmJob) -> list[str]:
    return [one["state"] for one in status(job)["shards"]]


def missing_for(job: SlurmJob, seconds: int) -> None:
    """Let what is missing in the queue have been missing for so long."""
    path = job.root / "absences.json"
    told = json.loads(path.read_text())
    since = int((time.monotonic() - seconds) * 1000)
    path.write_text(json.dumps(told | {"missing": [one | {"since_ms": since} for one in told["missing"]]}))


def batch_host(job: SlurmJob, shard: int) -> str:
    return str(next(one["where"] for one in status(job)["shards"] if one["shard"] == shard))


def test_an_array_from_the_queue_to_its_ends(cluster: Cluster) -> None:
    """Two wait while two run; one that waits is cancelled, one that runs loses its controller: all are told apart."""
    run = SlurmRun(cluster, {}, array_tasks={"count": 4, "max_concurrent": 2}, invocation={"num_records": 8})
    job = run.submit()
    until(lambda: states(job)[:2] == ["running", "running"], f"two to run; {job.log()}")
    assert states(job)[2:] == ["pending", "pending"]
    run.wait_working(job)
    cluster.scancel(f"{job.id}_2")
    assert states(job)[2] == "settling"
    missing_for(job, 60)
    assert states(job)[2] == "cancelled"
    cluster.run(("pkill", "-9", "-f", "[s]hell.run --run-dir"), node=batch_host(job, 0), user="root")
    until(lambda: states(job)[0] == "failed", f"a controller that was killed; {status(job)}")
    run.open_gate()
    cluster.wait_gone(job.id, timeout_s=120)
    until(lambda: "settling" not in states(job), "accounting")
    said = status(job)
    assert [one["state"] for one in said["shards"]] == ["failed", "completed", "cancelled", "completed"]
    assert "signal 9" in said["shards"][0]["why"]
    assert said["over"]
    assert said["caveats"] == []


def test_slurmdbd_and_slurmctld_away(cluster: Cluster) -> None:
    """Without accounting it degrades and says so; without the controller nothing is known, and nothing is over."""
    run = SlurmRun(cluster, {})
    job = run.submit()
    run.wait_working(job)
    conf = cluster.folder_for("conf") / "slurm.conf"
    conf.write_text(f"{cluster.run(('cat', '/etc/slurm/slurm.conf'), user='root').stdout}\nSlurmctldPort=9\n")
    conf.chmod(0o644)
    words = (sys.executable, "-m", "shell.cli", "status", str(job.root), "--json")
    environ = {"PYTHONPATH": str(PROJECT), "SLURM_CONF": str(conf)}
    said = json.loads(cluster.run(words, env=environ, cwd=job.root, check=False).stdout)
    assert [one["state"] for one in said["shards"]] == ["unknown"]
    assert not said["over"]
    assert "the queue cannot be read" in said["caveats"][0]
    conf.write_text(f"{cluster.run(('cat', '/etc/slurm/slurm.conf'), user='root').stdout}\nAccountingStoragePort=9\n")
    said = json.loads(cluster.run(words, env=environ, cwd=job.root, check=False).stdout)
    assert [one["state"] for one in said["shards"]] == ["running"]
    assert "no accounting" in said["caveats"][0]
    run.open_gate()
    assert job.ended() == "COMPLETED"
    assert states(job) == ["completed"]
