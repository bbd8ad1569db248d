"""`dd-slurm status` beside a real Slurm: what it says at every stage of an array."""

import json
import sys
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


def test_an_array_from_the_queue_to_its_ends(cluster: Cluster) -> None:
    """Two wait while two run; one is cancelled, one loses its controller, one is requeued, all are told apart."""
    run = SlurmRun(cluster, {}, array_tasks={"count": 4, "max_concurrent": 2}, invocation={"num_records": 8})
    job = run.submit()
    until(lambda: states(job)[:2] == ["running", "running"], f"two to run; {job.log()}")
    assert states(job)[2:] == ["pending", "pending"]
    run.wait_working(job)
    cluster.scancel(f"{job.id}_2")
    until(lambda: states(job)[2] == "cancelled", "the end of a task that waited")
    controller = next(
        one for node in cluster.nodes for one in cluster.job_processes(node) if "-m shell.run --run-dir" in one.command
    )
    cluster.run(("kill", "-9", str(controller.pid)), node="login", user="root", check=False)
    run.open_gate()
    cluster.wait_gone(job.id, timeout_s=120)
    until(lambda: "settling" not in states(job), "accounting")
    said = status(job)
    assert sorted(one["state"] for one in said["shards"]) in (
        ["cancelled", "completed", "completed", "failed"],
        ["cancelled", "completed", "completed", "completed"],
    )
    assert said["shards"][2]["why"].startswith("cancelled by user ")
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
