"""The cluster itself: what tests rely on."""

import pytest

from tests.slurm.cluster import Cluster, ClusterError


def test_a_job_of_an_ordinary_user_runs_on_all_nodes(cluster: Cluster) -> None:
    said = cluster.run_job("srun hostname | sort\nid -un", "-N4", "--gres=gpu:8", user="alice")
    assert said.split() == ["c1", "c2", "c3", "c4", "alice"]


def test_accounting_knows_the_job(cluster: Cluster) -> None:
    job = cluster.submit("exit 3")
    assert cluster.wait(job) == "FAILED"
    # Accounting lags behind, and is wrong for a moment.
    argv = ("sacct", "-X", "-n", "-P", "-o", "State,ExitCode", "-j", job)
    cluster.until(lambda: cluster.run(argv).stdout == "FAILED|3:0\n")


def test_processes_of_a_job_are_seen_on_its_nodes_only(cluster: Cluster) -> None:
    job = cluster.submit("exec sleep 1234", "-w", "c3")
    cluster.wait_running(job)
    cluster.until(lambda: "sleep 1234" in [one.command for one in cluster.job_processes("c3")])
    found = {node: [one.command for one in cluster.job_processes(node)] for node in cluster.nodes}
    assert "sleep 1234" in found["c3"]
    assert not any(found[node] for node in ("c1", "c2", "c4"))
    cluster.scancel(job)
    assert cluster.wait(job) == "CANCELLED"
    cluster.wait_idle()


def test_a_command_that_hangs_is_ended(cluster: Cluster) -> None:
    for node in ("login", "c2"):
        with pytest.raises(ClusterError, match="no end within"):
            cluster.run(("sleep", "1235"), node=node, timeout_s=0.2)
    cluster.wait_idle()


def test_a_node_without_power_comes_back(cluster: Cluster) -> None:
    cluster.kill_node("c4")
    with pytest.raises(ClusterError):
        cluster.run(("hostname",), node="c4")
    cluster.start_node("c4")
    assert cluster.run_job("hostname", "-w", "c4") == "c4\n"


def test_odd_names_and_full_host_names(odd_cluster: Cluster) -> None:
    said = odd_cluster.run_job("srun sh -c 'echo \"$SLURMD_NODENAME $(hostname)\"' | sort", "-N4")
    assert sorted(said.splitlines()) == sorted(
        ["GPU-A1 GPU-A1", "gpu-b-02 gpu-b-02.cluster.test", "rack1-n007 rack1-n007", "x10y3-n04 x10y3-n04"]
    )
