"""Steps of ours on the real cluster: they run side by side, see what they should, and take no orders from outside."""

import shlex

import pytest
from msgspec.structs import replace

from core.problem import At
from core.slurm.hostnames import expand_hostlist
from core.slurm.srun import serve_srun
from core.units import NodeName
from tests.slurm.cluster import Cluster, ClusterError
from tests.slurm.steps import Met, meet, slurm_version, step

ALL_EIGHT = "0,1,2,3,4,5,6,7"
MASKS = frozenset(
    "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ZE_AFFINITY_MASK SLURM_STEP_GPUS".split()
)


def all_well(met: Met) -> None:
    assert {name: (end.code, end.said) for name, end in met.ends.items()} == dict.fromkeys(met.ends, (0, ""))


def test_steps_share_a_node_with_all_its_gpus_and_a_client_sees_none(cluster: Cluster) -> None:
    # Two steps with 4 GPUs each would both get 0 to 3. So ours have all, and the masks are set per process.
    steps = (
        step("writer-0", ["c1"], 8),
        step("writer-1", ["c1"], 8),
        step("judge-0", ["c1", "c2"], 8, cpus=8),
        step("client", ["c1"], 0, cpus=2),
    )
    met = meet(cluster, steps, "-N2", "--gres=gpu:8", "--ntasks-per-node=1", "--cpus-per-task=16", "--mem=4000")
    all_well(met)
    assert set(met.seen) == {(one.name, node) for one in steps for node in one.nodes}
    for (name, _), seen in met.seen.items():
        if name == "client":
            assert not MASKS & set(seen)
        else:
            assert (seen["CUDA_VISIBLE_DEVICES"], seen["SLURM_STEP_GPUS"]) == (ALL_EIGHT, ALL_EIGHT)


def test_two_steps_that_ask_for_half_of_the_gpus_get_the_same_half(cluster: Cluster) -> None:
    """The observation on which our masks rest. Should it change one day, they can go."""
    met = meet(cluster, (step("one", ["c1"], 4), step("other", ["c1"], 4)), "-N1", "--gres=gpu:8", "--mem=4000", "-c16")
    all_well(met)
    assert [seen["CUDA_VISIBLE_DEVICES"] for seen in met.seen.values()] == ["0,1,2,3"] * 2


def test_a_step_has_the_cpus_that_were_asked_for_and_not_one(cluster: Cluster) -> None:
    met = meet(cluster, (step("some", ["c1"], 0, cpus=6), step("all", ["c1"], 0, cpus=None)), "-N1", "-c16")
    all_well(met)
    assert {name: seen["SLURM_CPUS_ON_NODE"] for (name, _), seen in met.seen.items()} == {"some": "6", "all": "16"}
    said = cluster.run_job("srun --exact -N1 -n1 printenv SLURM_CPUS_ON_NODE", "-N1", "-c16")
    assert said == "1\n"  # what we would get without saying it


def test_without_overlap_the_second_step_waits(cluster: Cluster) -> None:
    plain = "srun -N1 -n1 --mem=0 sleep 20 & sleep 1; srun -N1 -n1 --immediate=1 --mem=0 true; echo $?; kill %1"
    said = cluster.run_job(plain, "-N1", "-c4", "--mem=1000")
    assert said.split("\n")[-2] != "0"


def test_one_task_per_node_in_the_order_of_the_names(cluster: Cluster) -> None:
    met = meet(cluster, (step("all", ["c4", "c2", "c3", "c1"], 8),), "-N4", "--gres=gpu:8", "--mem=1000", "-c4")
    all_well(met)
    assert {node: seen["SLURM_PROCID"] for (_, node), seen in met.seen.items()} == {
        "c1": "0",
        "c2": "1",
        "c3": "2",
        "c4": "3",
    }


def test_some_nodes_of_an_allocation(cluster: Cluster) -> None:
    met = meet(cluster, (step("some", ["c2", "c4"], 8),), "-N4", "--gres=gpu:8", "--mem=1000", "-c4")
    all_well(met)
    assert {node for _, node in met.seen} == {"c2", "c4"}


def test_names_with_capitals_dashes_and_digits(odd_cluster: Cluster) -> None:
    steps = (step("all", odd_cluster.nodes, 0), *(step(f"only-{node}", [node], 0) for node in odd_cluster.nodes))
    met = meet(odd_cluster, steps, "-N4", "--mem=1000", "-c4")
    all_well(met)
    assert set(met.seen) == {(one.name, node) for one in steps for node in one.nodes}
    assert {seen["SLURMD_NODENAME"] for seen in met.seen.values()} == set(odd_cluster.nodes)
    listed = expand_hostlist(met.seen["all", "GPU-A1"]["SLURM_STEP_NODELIST"], At(source="step")).unwrap()
    assert [met.seen["all", node]["SLURM_PROCID"] for node in listed] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["gpu-a1", "GPU-B-02", "gpu-b-02.cluster.test"])
def test_another_spelling_of_a_name_is_no_node(odd_cluster: Cluster, name: str) -> None:
    met = meet(odd_cluster, (step("server", [NodeName(name)], 0),), "-N4", "--mem=1000", "-c4")
    assert met.ends["server"].code != 0
    assert not met.seen


def test_gpus_of_unequal_nodes(odd_cluster: Cluster) -> None:
    """A job asks for the same count on every node, so the bigger node gives no more than the smaller one has."""
    options = ("-wGPU-A1,gpu-b-02", "-N2", "--gres=gpu:4", "--mem=1000", "-c8")
    steps = (step("big", ["gpu-b-02"], 4), step("small", ["GPU-A1"], 4), step("client", ["gpu-b-02"], 0))
    met = meet(odd_cluster, steps, *options)
    all_well(met)
    assert [seen.get("CUDA_VISIBLE_DEVICES") for _, seen in sorted(met.seen.items())] == ["0,1,2,3", None, "0,1,2,3"]
    refused = meet(odd_cluster, (step("big", ["gpu-b-02"], 8),), *options, "--exclusive").ends["big"]
    assert refused.code != 0
    assert "Invalid generic resource" in refused.said


STEERING = (
    "SRUN_CPUS_PER_TASK=1",
    "SLURM_NTASKS=3",
    "SLURM_EXPORT_ENV=NONE",
    "SLURM_CPU_BIND=map_cpu:0",
    "SLURM_CPU_BIND_TYPE=map_cpu:",
    "SLURM_GRES=gpu:1",
    "SLURM_MEM_PER_CPU=50",
    "SLURM_MEM_PER_NODE=60",
    "SLURM_OPEN_MODE=a",
    "SLURM_GPUS_PER_TASK=9",
    "SLURM_CONSTRAINT=another-machine",
    "SLURM_WAIT=1",
    "SLURM_IMMEDIATE=1",
    "SLURM_DISTRIBUTION=plane=2",
)


def test_a_controller_that_runs_inside_a_step_starts_the_same_steps(cluster: Cluster) -> None:
    steps = (step("writer-0", ["c1", "c2"], 8), step("client", ["c1"], 0, cpus=2))
    options = ("-N2", "--gres=gpu:8", "--mem=4000", "-c16", "--ntasks-per-node=1")
    inside = "srun --overlap -N1 -n1 -w c1 -c2 --gres=gpu:2 --mem-per-cpu=100 --cpu-bind=rank --mpi=none env"
    plain = meet(cluster, steps, *options)
    nested = meet(cluster, steps, *options, prefix=f"{inside} {' '.join(STEERING)}")
    all_well(plain)
    all_well(nested)
    changing = {
        "SLURM_JOB_ID",
        "SLURM_JOBID",
        "SLURM_STEP_ID",
        "SLURM_STEPID",
        "SLURM_TASK_PID",
        "SLURM_SRUN_COMM_PORT",
    }
    changing |= {"SLURM_STEP_LAUNCHER_PORT", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "PWD", "OLDPWD", "_"}
    for who, seen in plain.seen.items():
        other = nested.seen[who]
        different = {name for name in {*seen, *other} - changing if seen.get(name) != other.get(name)}
        assert not different, (who, [(name, seen.get(name), other.get(name)) for name in different])


def test_unscrubbed_the_same_steps_fail(cluster: Cluster) -> None:
    steps = (step("writer-0", ["c1", "c2"], 8),)
    options = ("-N2", "--gres=gpu:8", "--mem=4000", "-c16", "--ntasks-per-node=1")
    met = meet(cluster, steps, *options, prefix=f"env {' '.join(STEERING)}", scrub=False)
    assert met.ends["writer-0"].code != 0, met.ends["writer-0"].said


def test_what_a_step_prints_is_where_its_request_says(cluster: Cluster) -> None:
    folder = cluster.folder_for("100%j logs")
    one = replace(
        step("facts", ["c1"], 0), output=str(folder / "facts.log"), command=("sh", "-c", "echo out; echo err >&2")
    )
    cluster.run_job(shlex.join(serve_srun(one, slurm_version(cluster)).argv), "-N1", "-c4")
    assert sorted(folder.joinpath("facts.log").read_text().split()) == ["err", "out"]


def test_a_job_that_fails_is_told_with_its_output(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="FAILED\nnow"):
        cluster.run_job("echo now; exit 3")
