"""A model of the hub on a real cluster: who downloads it, and that servers are told to stay offline."""

from pathlib import Path
from typing import Any

from tests.local.local_run import REPOSITORY
from tests.slurm.cluster import Cluster
from tests.slurm.slurm_run import SlurmJob, SlurmRun

HUB = REPOSITORY / "tests" / "shell" / "stand_in_hub"
FOUR_SERVERS: dict[str, Any] = {"model": "lab/m", "resources": {"nodes": 4}, "topology": {"tensor_parallel": 8}}


def submitted(run: SlurmRun, home: str, gated: bool, **environ: str) -> SlurmJob:
    settings: dict[str, Any] = {
        "PYTHONPATH": f"{HUB}:{REPOSITORY}",
        "HF_HOME": home,
        "STAND_IN_HUB_LOG": str(run.commands / "downloads"),
        **environ,
    }
    return run.submit(None, gated, **settings)


def downloads(run: SlurmRun) -> list[str]:
    """The nodes that downloaded."""
    log = run.commands / "downloads"
    return sorted(line.split()[2] for line in log.read_text().splitlines()) if log.exists() else []


def test_8_3_one_download_into_a_shared_cache_and_all_servers_offline(cluster: Cluster) -> None:
    run = SlurmRun(cluster, FOUR_SERVERS)
    job = submitted(run, f"{run.commands}/hf", gated=True)
    run.wait_working(job)
    for node in cluster.nodes:
        (pid, *_) = job.pids(node, "shell.simulate")
        assert b"HF_HUB_OFFLINE=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    assert downloads(run) == ["c1"]
    assert "lab/m is fetched from the hub by node c1; 3 other nodes of the same cache wait" in job.story()


def test_each_node_with_a_cache_of_its_own_downloads(cluster: Cluster) -> None:
    run = SlurmRun(cluster, FOUR_SERVERS)
    job = submitted(run, "/dev/shm/hf", gated=False)
    assert job.ended() == "COMPLETED", job.log()
    assert downloads(run) == ["c1", "c2", "c3", "c4"]


def test_a_model_that_cannot_be_fetched_ends_the_job_before_any_server(cluster: Cluster) -> None:
    run = SlurmRun(cluster, FOUR_SERVERS)
    job = submitted(run, f"{run.commands}/hf", gated=False, STAND_IN_HUB_FAILS="GatedRepoError")
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 69
    assert "'lab/m' cannot be fetched from the hub: its owner must let you in first" in job.story()
    assert not list((job.attempt() / "tasks").glob("m-*"))
