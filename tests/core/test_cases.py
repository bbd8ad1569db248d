"""What went wrong for others on real clusters: a test per row, with the number of the row in its name."""

import itertools
from collections.abc import Mapping

import msgspec
import pytest

from core.config.profile import ContainerMount
from core.outcome import problems_of
from core.plan.bind import bind
from core.plan.bound import BoundPlan, Headless, Serving
from core.plan.facts import Devices
from core.plan.hosts import choose_addresses
from core.plan.masks import gpu_names, mask_problems
from core.plan.paths import map_path
from core.plan.process_env import INTERNAL_PORTS, join_path, process_environment
from core.plan.steps import LaneOf, lanes_on, probes_of, steps_of
from core.problem import At
from core.report import report
from core.slurm.allocation import parse_allocation
from core.units import NodeName
from core.vllm.serve_args import serve_argv
from core.vllm.versions import VllmVersion
from tests.core.plan_cases import ATTEMPT, bound_on, planned
from tests.nodes import node

TP8_OVER_TWO: dict[str, object] = {
    "resources": {"nodes": 2},
    "topology": {"tensor_parallel": 8, "nodes_per_replica": 2},
}
FOUR_LANES: dict[str, object] = {"topology": {"tensor_parallel": 2}}
NOWHERE = At(source="a node")


def bound_of(*deployments: dict[str, object], gpus: int = 8, **different: object) -> BoundPlan:
    return bound_on(planned(list(deployments), gpus).unwrap(), gpus, **different).unwrap()


def lanes(bound: BoundPlan) -> list[LaneOf]:
    nodes = [where.name for where in bound.nodes]
    return [of for step in steps_of(bound) for name in nodes for of in lanes_on(bound, step.name, name)]


def environment(bound: BoundPlan, index: int = 0, outer: Mapping[str, str] | None = None) -> dict[str, str]:
    return process_environment(bound, lanes(bound)[index], outer or {}, "/tmp/scratch")


def codes_of(deployment: dict[str, object], gpus: int = 8) -> list[str]:
    return [report(problem).code for problem in problems_of(planned([deployment], gpus))]


def test_1_1_and_1_2_processes_of_a_node_have_ranges_of_their_own() -> None:
    """Also 4 servers on one node: four APIs and four ranges, disjoint, below the ephemeral ports."""
    own = lanes(bound_of(FOUR_LANES))
    apis = [of.lane.role.http_port for of in own if isinstance(of.lane.role, Serving)]
    starts = sorted(of.lane.internal_port or 0 for of in own)
    assert len(set(apis)) == len(starts) == 4
    assert all(right - left >= INTERNAL_PORTS for left, right in itertools.pairwise(starts))
    assert not any(start <= api < start + INTERNAL_PORTS for start in starts for api in apis)
    assert max(*apis, starts[-1] + INTERNAL_PORTS - 1) < 32_768


def test_1_3_two_halves_of_a_node_are_far_apart() -> None:
    first, second = (of.lane.internal_port or 0 for of in lanes(bound_of({"topology": {"tensor_parallel": 4}})))
    assert abs(first - second) >= 50


def test_1_4_no_vllm_port_where_a_tensor_group_spans_nodes() -> None:
    bound = bound_of(TP8_OVER_TWO)
    assert bound.deployments[0].replicas[0].master_port is not None
    for index in (0, 1):
        assert "VLLM_PORT" not in environment(bound, index, {"VLLM_PORT": "8000"})


def test_1_7_job_ids_that_differ_by_a_hundred_begin_elsewhere() -> None:
    plan = planned([FOUR_LANES]).unwrap()
    found = []
    for job in ("4100", "4200"):
        attempt = msgspec.structs.replace(ATTEMPT, job_id=job)
        found.append(bind(plan, (NodeName("n0"),), (node("n0"),), attempt, "/b").unwrap().endpoints[0].port)
    assert abs(found[0] - found[1]) > 4 * (INTERNAL_PORTS + 1)


def test_1_13_the_address_that_was_bound_is_probed() -> None:
    bound = bound_of(TP8_OVER_TWO)
    probe = probes_of(bound, steps_of(bound)[0])[0]
    assert f"--host={bound.nodes[0].address}" in serve_argv(bound, lanes(bound)[0])
    assert probe.base_url.startswith(f"http://{bound.nodes[0].address}:")


def test_2_1_the_address_of_another_node_is_replaced() -> None:
    bound = bound_of(TP8_OVER_TWO)
    outer = {"VLLM_HOST_IP": "10.0.0.1"}
    assert [environment(bound, i, outer)["VLLM_HOST_IP"] for i in (0, 1)] == [n.address for n in bound.nodes]


def test_2_2_the_fast_network_and_not_docker() -> None:
    bound = bound_of(TP8_OVER_TWO)
    assert [where.interface for where in bound.nodes] == ["ib0", "ib0"]
    assert environment(bound)["GLOO_SOCKET_IFNAME"] == "ib0"


@pytest.mark.parametrize(
    ("interfaces", "chosen"),
    [
        ("lo docker0 eth0", "eth0"),
        ("lo br-1f2e virbr0 cni0 eth1", "eth1"),
        ("lo docker0 eth0 ib0", "ib0"),
        ("lo eno1 hsn0 ib0", "hsn0"),
        ("lo bond0 eno1", "bond0"),
    ],
)
def test_2_2_what_carries_traffic_between_nodes(interfaces: str, chosen: str) -> None:
    names = interfaces.split()
    facts = tuple(
        node(name, addresses=[{"interface": of, "address": f"10.{i}.0.{host}"} for i, of in enumerate(names)])
        for host, name in enumerate(("n0", "n1"), 1)
    )
    assert [address and address.interface for address in choose_addresses(facts, None)] == [chosen] * 2


def test_2_4_ipv6_in_brackets() -> None:
    only = [{"interface": "lo", "address": "::1"}, {"interface": "ib0", "address": "fd00::7"}]
    facts = tuple(node(name, addresses=only) for name in ("n0", "n1"))
    plan = planned([TP8_OVER_TWO]).unwrap()
    bound = bind(plan, (NodeName("n0"), NodeName("n1")), facts, ATTEMPT, "/b").unwrap()
    assert probes_of(bound, steps_of(bound)[0])[0].base_url.startswith("http://[fd00::7]:")


def test_2_6_ranks_follow_the_list_and_not_its_order_by_name() -> None:
    plan = planned([TP8_OVER_TWO]).unwrap()
    facts = (node("n1", 1), node("n3", 3))
    bound = bind(plan, (NodeName("n3"), NodeName("n1")), facts, ATTEMPT, "/b").unwrap()
    step = steps_of(bound)[0].name
    assert [of.lane.rank for of in lanes_on(bound, step, NodeName("n3"))] == [0]
    assert [of.lane.rank for of in lanes_on(bound, step, NodeName("n1"))] == [1]


def test_2_9_and_2_10_names_keep_slurms_spelling() -> None:
    plan = planned([FOUR_LANES]).unwrap()
    facts = (node("GPU-A1", hostname="gpu-a1.fox"),)
    assert bind(plan, (NodeName("GPU-A1"),), facts, ATTEMPT, "/b").unwrap().nodes[0].name == "GPU-A1"


def test_2_13_an_address_is_always_given() -> None:
    assert environment(bound_of(FOUR_LANES))["VLLM_HOST_IP"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("mask", "present", "names"),
    [
        pytest.param("4,5,6,7", 4, "0,1,2,3", id="3.5 a cgroup renumbers"),
        pytest.param("4,5,6,7", 8, "4,5,6,7", id="3.9 nothing is constrained"),
        pytest.param("", 8, "", id="10 an empty mask is no GPU"),
        pytest.param(None, 2, "0,1", id="10 no mask is every GPU"),
        pytest.param("NoDevFiles", 8, "", id="10 none by name"),
        pytest.param("0,1,", 8, "0,1", id="10 a comma at the end names nothing"),
        pytest.param("2,-1,3", 8, "2", id="10 nothing counts after -1"),
        pytest.param("GPU-aa,GPU-bb", 2, "GPU-aa,GPU-bb", id="3.1 UUIDs pass through"),
        pytest.param("MIG-1f", 1, "MIG-1f", id="3.3 a slice is one"),
    ],
)
def test_names_of_devices(mask: str | None, present: int, names: str) -> None:
    devices = Devices(variable="CUDA_VISIBLE_DEVICES", mask=mask, present=present)
    assert ",".join(gpu_names(devices)) == names


@pytest.mark.parametrize(
    ("mask", "group", "version", "hint"),
    [
        pytest.param("GPU-aa,GPU-bb", 2, "0.18.0", "use vLLM 0.24.0 or newer", id="3.1 old vLLM"),
        pytest.param("GPU-aa,GPU-bb", 2, "0.33.0", None, id="3.1 new vLLM"),
        pytest.param("MIG-1f,MIG-2f", 2, "0.33.0", "tensor_parallel 1", id="3.3 two slices are no GPU"),
        pytest.param("MIG-1f", 1, "0.33.0", None, id="3.3 one slice"),
        pytest.param("0,1", 2, "0.18.0", None, id="indices always"),
    ],
)
def test_which_masks_are_refused(mask: str, group: int, version: str, hint: str | None) -> None:
    devices = Devices(variable="CUDA_VISIBLE_DEVICES", mask=mask, present=8)
    hints = [report(problem).hint for problem in mask_problems(devices, group, VllmVersion(text=version), NOWHERE)]
    assert len(hints) == (hint is not None)
    assert all((hint or "") in found for found in hints)


def test_3_6_a_mask_and_never_device_ids() -> None:
    bound = bound_of(FOUR_LANES, vllm_version="0.33.0")
    assert environment(bound, 1)["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert not any("device-ids" in word for of in lanes(bound) for word in serve_argv(bound, of))


def test_3_7_more_ranks_than_gpus_are_refused_before_submission() -> None:
    (problem,) = problems_of(planned([{"topology": {"tensor_parallel": 16, "nodes_per_replica": 1}}]))
    assert report(problem).code == "too-few-gpus"
    assert "add nodes" in report(problem).hint
    assert "lower tensor_parallel" in report(problem).hint


def test_4_5_and_4_8_steps_and_mpi_do_not_steer_servers() -> None:
    outer = {
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x3",
        "SLURM_NTASKS": "1",
        "SLURM_JOB_ID": "5",
        "SLURM_PROCID": "0",
        "PMI_RANK": "0",
        "PMIX_RANK": "0",
        "SRUN_CPUS_PER_TASK": "4",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "x",
        "PATH": "/bin",
    }
    kept = environment(bound_of(FOUR_LANES), 0, outer)
    assert {name: kept[name] for name in outer if name in kept} == {"SLURM_JOB_ID": "5", "PATH": "/bin"}


def test_8_2_caches_are_not_shared() -> None:
    bound = bound_of(FOUR_LANES)
    for name in ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert len({environment(bound, index)[name] for index in range(4)}) == 4


def test_8_5_a_small_dev_shm_is_said_with_its_number() -> None:
    plan = planned([{"topology": {"tensor_parallel": 8}}]).unwrap()
    (problem,) = problems_of(bound_on(plan, shm_mib=64))
    assert report(problem).message == "/dev/shm is 64 MiB, 1024 MiB are needed"


def test_8_7_packages_of_the_users_home_stay_out() -> None:
    assert environment(bound_of(FOUR_LANES))["PYTHONNOUSERSITE"] == "1"


@pytest.mark.parametrize("inherited", [None, "", ":", "/a::/b:"])
def test_10_python_path_has_no_empty_entry(inherited: str | None) -> None:
    outer = {} if inherited is None else {"PYTHONPATH": inherited}
    entries = environment(bound_of(FOUR_LANES), 0, outer)["PYTHONPATH"].split(":")
    assert entries[0] == "/run/bundle"
    assert "" not in entries
    assert join_path("/x", "/b:/a:/b") == "/x:/b:/a"


def test_10_a_vllm_port_that_is_a_uri_is_replaced() -> None:
    assert environment(bound_of(FOUR_LANES), 0, {"VLLM_PORT": "tcp://10.0.0.1:80"})["VLLM_PORT"].isdecimal()


def test_10_two_nodes_alone() -> None:
    bound = bound_of({"resources": {"nodes": 2}, "topology": {"tensor_parallel": 8, "nodes_per_replica": 1}})
    assert [(of.lane.slot, of.lane.rank) for of in lanes(bound)] == [(0, 0), (1, 0)]
    for of in lanes(bound):
        words = serve_argv(bound, of)
        assert "--distributed-executor-backend=mp" in words
        assert not any(word.startswith(("--nnodes", "--master")) for word in words)


def test_10_two_nodes_together() -> None:
    bound = bound_of(TP8_OVER_TWO)
    leader, follower = lanes(bound)
    assert isinstance(leader.lane.role, Serving)
    assert isinstance(follower.lane.role, Headless)
    assert "--headless" in serve_argv(bound, follower)
    for of in (leader, follower):
        words = serve_argv(bound, of)
        assert "--pipeline-parallel-size=2" in words
        assert f"--master-addr={bound.nodes[0].address}" in words


def test_10_one_gpu_is_uni() -> None:
    assert planned([{}], 1).unwrap().deployments[0].server.executor == "uni"


@pytest.mark.parametrize("executor", ["auto", "mp", "ray"])
def test_10_ray_over_nodes_is_refused_and_never_proposed(executor: str) -> None:
    server = {"executor": executor, "vllm_version": "0.10.2"}
    (problem,) = problems_of(planned([{**TP8_OVER_TWO, "server": server}]))
    assert report(problem).code == "executor-unfit"
    assert "ray" not in report(problem).hint
    assert planned([{"server": {"executor": "ray"}}]).unwrap().deployments[0].server.executor == "ray"


def test_10_tp_6_on_8_gpus() -> None:
    assert codes_of({"topology": {"tensor_parallel": 6}}) == ["gpus-not-divisible"]


def test_10_experts_over_two_nodes() -> None:
    topology = {"tensor_parallel": 1, "data_parallel": 8, "nodes_per_replica": 2, "load_balancing": "external"}
    moe = bound_of({"resources": {"nodes": 2}, "topology": {**topology, "expert_parallel": True}}, gpus=4)
    assert len(moe.deployments[0].replicas) == 1
    assert sum(isinstance(of.lane.role, Serving) for of in lanes(moe)) == 8
    dense = bound_of({"resources": {"nodes": 2}, "topology": {"data_parallel": 8}}, gpus=4)
    assert len(dense.deployments[0].replicas) == 8
    assert all(replica.rpc_port is None for replica in dense.deployments[0].replicas)


def test_10_the_longest_mount_wins_and_a_prefix_is_a_whole_folder() -> None:
    mounts = tuple(ContainerMount(source=s, target=t) for s, t in (("/data", "/d"), ("/data/models", "/m")))
    assert map_path("/data/models/x", mounts, NOWHERE).unwrap() == "/m/x"
    assert map_path("/data/modelsx", mounts, NOWHERE).unwrap() == "/d/modelsx"
    assert [report(p).code for p in problems_of(map_path("/database", mounts, NOWHERE))] == ["path-not-mounted"]


def test_an_empty_allocation_and_one_of_another_size() -> None:
    assert {report(p).code for p in problems_of(parse_allocation({}))} == {"not-in-allocation"}
    plan = planned([TP8_OVER_TWO]).unwrap()
    for hosts in ((), (NodeName("n0"),)):
        (problem,) = problems_of(bind(plan, hosts, tuple(node(host) for host in hosts), ATTEMPT, "/b"))
        said = report(problem)
        assert (said.code, said.path) == ("node-count-mismatch", "SLURM_JOB_NODELIST")
        assert f"got {len(hosts)}" in said.message


def test_a_silent_node_does_not_hide_what_is_wrong_with_others() -> None:
    plan = planned([{"resources": {"nodes": 3}, "topology": {"tensor_parallel": 8}}]).unwrap()
    hosts = tuple(NodeName(name) for name in ("n0", "n1", "n2"))
    found = problems_of(bind(plan, hosts, (node("n2", 2, 4), node("n1", 1)), ATTEMPT, "/b"))
    assert [(report(p).code, p.at.source) for p in found] == [
        ("facts-missing", "node n0"),
        ("devices-too-few", "node n2"),
    ]
    assert problems_of(bind(plan, hosts, (), ATTEMPT, "/b"))


def test_a_dense_model_without_gpus_is_refused_in_words() -> None:
    (problem,) = problems_of(planned([{"topology": {"data_parallel": 2}}], 0))
    assert "without GPUs" in report(problem).message


def test_addresses_are_of_one_network() -> None:
    left = node(
        "n0", addresses=[{"interface": "ib0", "address": "10.0.0.1"}, {"interface": "eth0", "address": "10.1.0.1"}]
    )
    right = node("n1", addresses=[{"interface": "eth0", "address": "10.1.0.2"}])
    assert [address and address.interface for address in choose_addresses((left, right), None)] == ["eth0", "eth0"]
