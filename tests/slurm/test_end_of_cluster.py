"""A cluster is stopped whatever happens, what is left of one is found, and where none can start that is told."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.available import INSTALL, must_run
from tests.slurm.cluster import Cluster
from tests.slurm.leftovers import HeldNamespaces, lasting_leftovers, leftovers
from tests.slurm.options import PROJECT
from tests.slurm.recovery import recover

pytestmark = pytest.mark.usefixtures("able")
_SMALL = """
import sys, time
from tests.slurm.options import LabNode, LabOptions
from tests.slurm.running import running_cluster
with running_cluster(LabOptions(nodes=(LabNode(name="n1"),), accounting=False)) as cluster:
    job = cluster.submit("exec sleep 1000")
    cluster.wait_running(job)
    print(cluster.folder, cluster.init("login"), cluster.init("n1"), flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_tests_are_killed(by: signal.Signals) -> None:
    argv = [sys.executable, "-c", _SMALL]
    with HeldNamespaces() as held:
        with subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tests:
            assert tests.stdout is not None
            folder, *inits = tests.stdout.readline().split()
            for init in inits:
                held.hold(int(init))
            assert [line for line in leftovers(Path(folder), held.names) if "sleep 1000" in line]
            tests.send_signal(by)
            tests.communicate(timeout=60)
        assert lasting_leftovers(Path(folder), held.names, 60) == ()


def test_a_process_in_a_namespace_of_the_cluster_is_found(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    argv = ["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"]
    with HeldNamespaces() as held, subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held.hold(process.pid)
        assert leftovers(nowhere, held.names) == (f"process {process.pid}: sleep 1000",)
        process.kill()
        process.communicate()
        assert leftovers(nowhere, held.names) == ()


def test_a_mount_a_folder_and_a_process_inside_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    folder.mkdir()
    with subprocess.Popen(["sleep", "1000"], cwd=folder) as process:
        script = f"mount -t tmpfs tmpfs {folder} && exec {sys.executable} -m tests.slurm.leftovers {folder}"
        seen = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script], cwd=PROJECT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        process.kill()
    assert f"folder {folder}" in seen
    assert f"process {process.pid}: sleep 1000" in seen
    assert [line for line in seen if line.startswith("mount ") and str(folder) in line]


def _pytest_as_alice(cluster: Cluster, **env: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/slurm/test_cluster.py")
    return cluster.run(argv, user="alice", env={**env, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=PROJECT, check=False)


def test_who_cannot_start_a_cluster_is_told_loudly(cluster: Cluster) -> None:
    if cluster.user != "alice":
        pytest.skip("the checkout is closed to other users")
    skipped = _pytest_as_alice(cluster)
    assert skipped.returncode == 0
    assert "REAL SLURM WAS NOT TESTED" in skipped.stdout
    assert f"not root, which namespaces and device files need; run as root after: {INSTALL}" in skipped.stdout


def test_in_ci_it_is_a_failure(cluster: Cluster) -> None:
    if cluster.user != "alice":
        pytest.skip("the checkout is closed to other users")
    failed = _pytest_as_alice(cluster, CI="true")
    assert failed.returncode == 1
    assert (
        f"no real Slurm: not root, which namespaces and device files need; run as root after: {INSTALL}"
        in failed.stdout
    )
    assert " passed" not in failed.stdout


@pytest.mark.parametrize(("value", "must"), [("true", True), ("1", True), ("", False), ("false", False), ("0", False)])
def test_ci_is_what_says_so(value: str, must: bool) -> None:
    assert must_run({"CI": value}) is must
    assert not must_run({})


def test_two_clusters_stand_side_by_side(cluster: Cluster, odd_cluster: Cluster) -> None:
    jobs = [one.submit("hostname; sleep 0.5", "-N1") for one in (cluster, odd_cluster)]
    assert [one.wait(job) for one, job in zip((cluster, odd_cluster), jobs, strict=True)] == ["COMPLETED"] * 2
    assert (cluster.output(jobs[0]), odd_cluster.output(jobs[1])) == ("c1\n", "GPU-A1\n")
    assert not set(cluster.namespaces.names) & set(odd_cluster.namespaces.names)


def test_a_node_that_a_test_left_in_disorder_is_mended(cluster: Cluster) -> None:
    """Not by the end of a test that waits, but where that fails: here asked for at once."""
    cluster.kill_slurmd("c1")
    cluster.kill_node("c2")
    stray = cluster.start(("sleep", "1000"), node="c3")
    cluster.until(lambda: bool(cluster.job_processes("c3")))
    cluster.cut("c4")
    time.sleep(0.1)
    recover(cluster)
    stray.communicate(timeout=10)
    assert stray.returncode != 0
    assert cluster.run_job("srun hostname | sort", "-N4").split() == ["c1", "c2", "c3", "c4"]
