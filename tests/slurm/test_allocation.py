"""What `parse_allocation` makes of real grants: the environment of the job and what scontrol says inside of it."""

from collections.abc import Sequence
from pathlib import Path

from core.slurm.allocation import Allocation, ArrayTask, parse_allocation
from core.slurm.gpus import GpuIndices
from tests.slurm.cluster import Cluster
from tests.slurm.steps import variables

TELL = """
folder={folder}/$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}
mkdir $folder
scontrol show hostnames "$SLURM_JOB_NODELIST" >$folder/hostnames.txt
scontrol show job -d -o $SLURM_JOB_ID >$folder/job.txt
srun --version >$folder/version.txt
env -0 >$folder/env
"""


def ask(cluster: Cluster, *options: str, directives: Sequence[str] = (), after: str = "") -> tuple[str, Path]:
    """Submits a job that writes down what it was granted; its id, and the folder of the answers."""
    folder = cluster.folder_for("allocation")
    script = "\n".join(("#!/bin/bash", *directives, TELL.format(folder=folder), after))
    return cluster.submit(script, *options), folder


def granted(folder: Path) -> Allocation:
    outputs = [(folder / f"{name}.txt").read_text() for name in ("hostnames", "job", "version")]
    return parse_allocation(variables(folder / "env"), *outputs).unwrap()


def completed(cluster: Cluster, *options: str, directives: Sequence[str] = ()) -> Allocation:
    job, folder = ask(cluster, *options, directives=directives)
    assert cluster.wait(job) == "COMPLETED"
    return granted(folder / f"{job}-0")


def test_one_node(cluster: Cluster) -> None:
    allocation = completed(cluster, "-N1", "-w", "c3", "--gres=gpu:3", "-c8", "-t", "10")
    (node,) = allocation.nodes
    assert (node.name, node.cpus, node.gpus) == ("c3", 8, GpuIndices(indices=(0, 1, 2)))
    assert (allocation.array, allocation.restart_count, allocation.cluster) == (None, 0, "slurmlab")
    assert allocation.slurm_version is not None
    assert allocation.time_left_s is not None
    assert 500 < allocation.time_left_s <= 600


def test_several_nodes_each_with_its_gpus(cluster: Cluster) -> None:
    allocation = completed(cluster, "-N3", "-w", "c2,c4,c1", "--gres=gpu:8", "--ntasks-per-node=1", "-c16")
    assert allocation.hosts == ("c1", "c2", "c4")
    assert [(node.cpus, node.gpus) for node in allocation.nodes] == [(16, GpuIndices(indices=tuple(range(8))))] * 3


def test_two_jobs_on_one_node_have_different_gpus(cluster: Cluster) -> None:
    first, folder = ask(cluster, "-w", "c1", "--gres=gpu:4", after="sleep 30")
    cluster.wait_running(first)
    second = completed(cluster, "-w", "c1", "--gres=gpu:4")
    assert second.nodes[0].gpus == GpuIndices(indices=(4, 5, 6, 7))
    assert granted(folder / f"{first}-0").nodes[0].gpus == GpuIndices(indices=(0, 1, 2, 3))


def test_tasks_of_an_array(cluster: Cluster) -> None:
    first, folder = ask(cluster, "--array=0,3,7", "-N1", "--gres=gpu:2")
    cluster.wait_gone(first)
    found = sorted((granted(one) for one in folder.iterdir()), key=lambda one: one.array.task_id if one.array else -1)
    assert [one.array for one in found] == [ArrayTask(job_id=first, task_id=task) for task in (0, 3, 7)]
    assert found[-1].job_id == first  # the last task keeps the id of the array
    assert len({one.job_id for one in found}) == 3
    assert all(isinstance(one.nodes[0].gpus, GpuIndices) for one in found)


def test_a_requeued_job_counts_its_restarts(cluster: Cluster) -> None:
    job, folder = ask(cluster, "-N2", "--requeue", after='[ "${SLURM_RESTART_COUNT:-0}" = 1 ] || sleep 60')
    cluster.wait_running(job)
    cluster.until(lambda: (folder / f"{job}-0" / "env").exists())
    cluster.scontrol("requeue", job)
    assert cluster.wait(job, {"COMPLETED"}) == "COMPLETED"
    first, second = granted(folder / f"{job}-0"), granted(folder / f"{job}-1")
    assert [(one.job_id, one.restart_count) for one in (first, second)] == [(job, 0), (job, 1)]


def test_the_leading_component_of_a_het_job(cluster: Cluster) -> None:
    directives = ("#SBATCH -N1 --gres=gpu:8", "#SBATCH hetjob", "#SBATCH -N2 --gres=gpu:2")
    allocation = completed(cluster, directives=directives)
    assert allocation.hosts == ("c1",)
    assert allocation.nodes[0].gpus == GpuIndices(indices=tuple(range(8)))


def test_odd_names_in_the_order_of_slurm(odd_cluster: Cluster) -> None:
    allocation = completed(odd_cluster, "-N4")
    assert sorted(allocation.hosts) == sorted(odd_cluster.nodes)
    by_hostnames = odd_cluster.run_job('scontrol show hostnames "$SLURM_JOB_NODELIST"', "-N4").split()
    assert list(allocation.hosts) == by_hostnames


def test_whole_nodes_with_unequal_gpus(odd_cluster: Cluster) -> None:
    """An exclusive job is told of all GPUs of its nodes, whatever it asked for."""
    allocation = completed(odd_cluster, "-N2", "-w", "GPU-A1,rack1-n007", "--exclusive", "--gres=gpu:2")
    assert {node.name: node.gpus for node in allocation.nodes} == {
        "GPU-A1": GpuIndices(indices=(0, 1, 2, 3)),
        "rack1-n007": GpuIndices(indices=(0, 1)),
    }
