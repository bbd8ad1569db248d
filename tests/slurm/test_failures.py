"""What goes wrong on real nodes. Either the run goes on, or its end says why; and nothing is left on any node."""

import signal

import pytest

from core.supervise.verdict import OutOfTime, RankExited, ServersFailed, Stopped
from tests.local.local_run import replayed, until
from tests.slurm.cluster import Cluster
from tests.slurm.slurm_run import RESTART, TWO_NODES, SlurmJob, SlurmRun

FAIL = {"on_failure": {"policy": "fail"}}
WORKER, CONTROLLER, CLIENT, ENDPOINT = "shell.node serve", "shell.run", "program.py", "shell.endpoint"


def _working(cluster: Cluster, **policy: object) -> tuple[SlurmRun, SlurmJob]:
    run = SlurmRun(cluster, TWO_NODES | policy)
    job = run.submit()
    run.wait_working(job)
    return run, job


def _goes_on(run: SlurmRun, job: SlurmJob) -> str:
    """The run ends well after a restart of its only replica."""
    until(lambda: "starts again" in job.log() or "launch 2" in job.log(), f"a restart; {job.log()}")
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]
    assert "m-0 (launch 2) is ready" in job.story()
    return job.story()


@pytest.mark.parametrize("node", ["c1", "c2"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_rank_is_killed(cluster: Cluster, node: str, number: int) -> None:
    run, job = _working(cluster, **RESTART)
    job.kill_lane(node, number)
    story = _goes_on(run, job)
    assert f"on node {node} was killed by signal {number}" in story


@pytest.mark.parametrize("code", [0, 1])
def test_a_rank_ends_by_itself(cluster: Cluster, code: int) -> None:
    run = SlurmRun(cluster, TWO_NODES | RESTART)
    job = run.submit()
    run.wait_working(job)
    job.command({"only": {"rank": 1}, "fail": {"at": "now", "exit": code}})
    story = _goes_on(run, job)
    assert f"on node c2 ended with exit code {code}" in story


def test_the_other_replica_serves_on(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {"resources": {"nodes": 2}, "topology": {"tensor_parallel": 8}} | RESTART)
    job = run.submit()
    run.wait_working(job)
    job.kill("c2", "shell.simulate")
    until(lambda: "m-1 failed" in job.log(), job.log())
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]
    assert "m-0 failed" not in job.story()


@pytest.mark.parametrize("which", [0, 1], ids=["guard", "worker"])
@pytest.mark.parametrize("node", ["c1", "c2"])
def test_a_node_worker_is_killed(cluster: Cluster, node: str, which: int) -> None:
    run, job = _working(cluster, **RESTART)
    job.kill(node, WORKER, which)
    assert f"node worker on node {node}" in _goes_on(run, job)


def test_srun_is_killed(cluster: Cluster) -> None:
    run, job = _working(cluster, **RESTART)
    job.kill("c1", "srun --job-name=m-0")
    assert "the whole step was killed by signal 9" in _goes_on(run, job)


def test_the_step_is_cancelled(cluster: Cluster) -> None:
    run, job = _working(cluster, **RESTART)
    steps = cluster.run(("squeue", "-s", "-h", "-j", job.id, "-o", "%i %j")).stdout.splitlines()
    (step,) = [line.split()[0] for line in steps if line.endswith(" m-0")]
    cluster.scancel(step)
    _goes_on(run, job)


def test_policy_fail_ends_the_attempt_and_says_why(cluster: Cluster) -> None:
    _, job = _working(cluster, **FAIL)
    job.kill_lane("c2")
    assert job.ended() == "FAILED"
    verdict = job.verdict()
    assert isinstance(verdict, ServersFailed)
    assert isinstance(verdict.cause, RankExited)
    assert (verdict.cause.node, verdict.cause.code) == ("c2", -signal.SIGKILL)
    assert job.record()["exit_code"] == 69
    assert replayed(job.attempt()) == verdict


@pytest.mark.parametrize("which", [0, 1], ids=["guard", "controller"])
def test_the_controller_is_killed(cluster: Cluster, which: int) -> None:
    _, job = _working(cluster, **RESTART)
    job.kill("c1", CONTROLLER, which)
    assert job.ended() == "FAILED"


@pytest.mark.parametrize("words", [CLIENT, ENDPOINT])
def test_client_or_endpoint_is_killed(cluster: Cluster, words: str) -> None:
    run, job = _working(cluster, **RESTART)
    job.kill("c1", words)
    if words == ENDPOINT:
        run.open_gate()
        assert job.ended() == "COMPLETED", job.log()
    else:
        assert job.ended() == "FAILED"
        assert job.record()["state"] == "FAILED"


def test_scancel_of_the_job(cluster: Cluster) -> None:
    _, job = _working(cluster)
    cluster.scancel(job.id)
    assert job.ended() == "CANCELLED"
    assert job.verdict() == Stopped(reason="SIGTERM", exit_code=143)
    assert job.record()["state"] == "INTERRUPTED"


def test_the_time_limit_is_near(cluster: Cluster) -> None:
    _, job = _working(cluster)
    cluster.scancel("-b", "-s", "USR1", job.id)
    assert job.ended() == "FAILED"
    assert job.verdict() == OutOfTime()
    assert job.record()["exit_code"] == 75


def test_the_time_limit_is_reached(cluster: Cluster) -> None:
    """Without a margin Slurm's own TERM stops the attempt."""
    _, job = _working(cluster)
    cluster.scontrol("update", f"jobid={job.id}", "endtime=now+2")
    assert job.ended() == "TIMEOUT"
    assert job.record()["state"] == "INTERRUPTED"


def test_a_follower_loses_its_power(cluster: Cluster) -> None:
    _, job = _working(cluster)
    cluster.kill_node("c2")
    try:
        assert cluster.wait(job.id, {"NODE_FAIL", "PENDING", "FAILED"}, timeout_s=90) in ("NODE_FAIL", "FAILED")
        cluster.wait_idle("c1", "c3", "c4", timeout_s=90)
    finally:
        cluster.start_node("c2")
    assert job.record()["state"] in ("INTERRUPTED", "FAILED")


def test_the_batch_host_loses_its_power(cluster: Cluster) -> None:
    _, job = _working(cluster)
    cluster.kill_node("c1")
    try:
        assert cluster.wait(job.id, {"NODE_FAIL", "PENDING"}, timeout_s=90) == "NODE_FAIL"
        cluster.wait_idle("c2", "c3", "c4", timeout_s=90)
    finally:
        cluster.start_node("c1")


def test_slurmd_of_a_follower_dies(cluster: Cluster) -> None:
    """The run itself needs no slurmd; its end finds the follower through the lease."""
    run, job = _working(cluster)
    cluster.kill_slurmd("c2")
    run.open_gate()
    until(lambda: "COMPLETED" in job.log(), job.log())
    until(lambda: not job.pids("c2", "shell.simulate"), "the follower's server to end with the lease")
    cluster.start_slurmd("c2")
    assert job.ended() == "COMPLETED", job.log()


def test_a_server_that_never_becomes_ready(cluster: Cluster) -> None:
    server = {"startup_timeout": "3s", "distributed_init_timeout": "3s"}
    run = SlurmRun(cluster, TWO_NODES | FAIL | {"server": server})
    job = run.submit({"hang_startup": True})
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 69
    assert "not ready" in job.story()
