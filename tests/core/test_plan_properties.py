"""Laws of every plan that is made, whatever was asked for and whatever the nodes say."""

import itertools
from collections import Counter

import msgspec
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.outcome import problems_of
from core.plan.bound import BoundPlan, Serving
from core.plan.facts import NodeFacts
from core.plan.model import RunPlan
from core.plan.ports import assign_ports, port_range
from core.plan.process_env import INTERNAL_PORTS, process_environment
from core.plan.rebind import rebind
from core.plan.shards import shard_of
from core.plan.steps import LaneOf, lanes_on, probes_of, steps_of
from core.report import as_text
from core.vllm.serve_args import serve_argv
from tests.core.plan_cases import Case, bound_on, cases, planned
from tests.nodes import node

LONGEST_STRING = 128 * 1024
"""Of one argument or variable on Linux, its end included."""


def bound_of(case: Case | None) -> BoundPlan | None:
    """None where the nodes do not fit, which must then be said in words."""
    if case is None:
        return None
    outcome = case.bound()
    assert is_successful(outcome) or all(as_text(problem) for problem in problems_of(outcome))
    return outcome.unwrap() if is_successful(outcome) else None


def all_lanes(bound: BoundPlan) -> list[LaneOf]:
    return [
        lane
        for step in steps_of(bound)
        for slot in range(len(bound.nodes))
        for lane in lanes_on(bound, step.name, bound.nodes[slot].name)
    ]


def ports_by_slot(bound: BoundPlan) -> dict[int, list[int]]:
    """Every port of every node, counted here without help of the product."""
    found: dict[int, list[int]] = {slot: [] for slot in range(len(bound.nodes))}
    found[bound.client_slot] += [endpoint.port for endpoint in bound.endpoints]
    for deployment in bound.deployments:
        for replica in deployment.replicas:
            leader = found[replica.lanes[0].slot]
            leader += [port for port in (replica.master_port, replica.rpc_port) if port is not None]
            for lane in replica.lanes:
                if isinstance(lane.role, Serving):
                    found[lane.slot].append(lane.role.http_port)
                if lane.internal_port is not None:
                    found[lane.slot] += range(lane.internal_port, lane.internal_port + INTERNAL_PORTS)
    return found


def assert_ports_are_good(plan: RunPlan, facts: tuple[NodeFacts, ...], bound: BoundPlan) -> None:
    for slot, ports in ports_by_slot(bound).items():
        assert len(ports) == len(set(ports)), f"a port is given twice on node {slot}"
        assert not set(ports) & set(facts[slot].taken_ports)
        low, high = plan.site.ports or (10_000, 65_535)
        assert all(low <= port <= high and port < facts[slot].ephemeral_low for port in ports)


def test_the_generator_reaches_what_matters() -> None:
    def wide(case: Case | None) -> bool:
        bound = bound_of(case)
        return (
            bound is not None
            and len(bound.deployments) > 1
            and any(r.master_port for d in bound.deployments for r in d.replicas)
        )

    def shared(case: Case | None) -> bool:
        bound = bound_of(case)
        return bound is not None and len(bound.deployments) > 2 and len(bound.nodes) == 1

    def grouped(case: Case | None) -> bool:
        bound = bound_of(case)
        return bound is not None and any(r.rpc_port for d in bound.deployments for r in d.replicas)

    quick = settings(max_examples=1000, deadline=None, phases=[Phase.generate], derandomize=True)
    for wanted in (wide, shared, grouped):
        assert find(cases(), wanted, settings=quick) is not None


@given(cases())
def test_ports_of_a_node_are_disjoint_free_and_in_range(case: Case | None) -> None:
    bound = bound_of(case)
    if case is not None and bound is not None:
        assert_ports_are_good(case.plan, case.facts, bound)


@given(cases())
def test_a_gpu_belongs_to_one_process(case: Case | None) -> None:
    bound = bound_of(case)
    if bound is None:
        return
    for slot, where in enumerate(bound.nodes):
        used = [gpu for lane in all_lanes(bound) if lane.lane.slot == slot for gpu in lane.lane.gpu_indices]
        assert len(used) == len(set(used))
        assert all(0 <= gpu < len(where.gpus) for gpu in used)


@given(cases())
def test_ranks_are_complete_and_the_leader_is_first(case: Case | None) -> None:
    bound = bound_of(case)
    if case is None or bound is None:
        return
    for deployment, wanted in zip(bound.deployments, case.plan.deployments, strict=True):
        parallel = deployment.parallel
        assert deployment.replicas
        assert [replica.index for replica in deployment.replicas] == list(range(len(deployment.replicas)))
        for replica in deployment.replicas:
            assert [lane.rank for lane in replica.lanes] == list(range(len(replica.lanes)))
            assert replica.lanes[0].slot == min(lane.slot for lane in replica.lanes)
            assert len({lane.slot for lane in replica.lanes}) == parallel.nodes
            assert isinstance(replica.lanes[0].role, Serving)
            if wanted.placement.gpus_per_node != 0:
                assert sum(len(lane.gpu_indices) for lane in replica.lanes) == parallel.world


@given(cases())
def test_every_process_is_run_by_exactly_one_node_for_exactly_one_step(case: Case | None) -> None:
    bound = bound_of(case)
    if bound is None:
        return
    ran = Counter((of.deployment.alias, of.replica.index, of.lane.rank) for of in all_lanes(bound))
    there = [(d.alias, r.index, lane.rank) for d in bound.deployments for r in d.replicas for lane in r.lanes]
    assert ran == Counter(there)
    assert set(ran.values()) == {1}
    for step in steps_of(bound):
        for slot, where in enumerate(bound.nodes):
            assert bool(lanes_on(bound, step.name, where.name)) == (slot in step.slots)


@given(cases())
def test_names_are_unique(case: Case | None) -> None:
    bound = bound_of(case)
    if bound is None:
        return
    identities = [replica.identity for deployment in bound.deployments for replica in deployment.replicas]
    assert len(identities) == len(set(identities))
    steps = [step.name for step in steps_of(bound)]
    assert len(steps) == len(set(steps))
    lanes = [lane.name for lane in all_lanes(bound)]
    assert len(lanes) == len(set(lanes))


@given(cases())
def test_every_api_is_probed_at_the_address_that_it_is_bound_to(case: Case | None) -> None:
    bound = bound_of(case)
    if bound is None:
        return
    urls = [probe.base_url for step in steps_of(bound) for probe in probes_of(bound, step)]
    apis = [of for of in all_lanes(bound) if isinstance(of.lane.role, Serving)]
    assert len(urls) == len(set(urls)) == len(apis)
    for of in apis:
        host = next(word for word in serve_argv(bound, of) if word.startswith("--host=")).removeprefix("--host=")
        port = next(word for word in serve_argv(bound, of) if word.startswith("--port=")).removeprefix("--port=")
        assert f"http://{host}:{port}" in urls


@given(cases())
def test_plans_survive_their_files(case: Case | None) -> None:
    bound = bound_of(case)
    if case is not None:
        assert msgspec.json.decode(msgspec.json.encode(case.plan), type=RunPlan) == case.plan
    if bound is not None:
        assert msgspec.json.decode(msgspec.json.encode(bound), type=BoundPlan) == bound


@given(cases())
def test_launch_delays_depend_on_the_node_only(case: Case | None) -> None:
    bound = bound_of(case)
    if case is None or bound is None:
        return
    most = max(Counter(of.lane.slot for of in all_lanes(bound)).values())
    server = case.plan.deployments[0].server
    for of in all_lanes(bound):
        assert 0 <= of.lane.launch_delay_ms <= server.standoff_ms + server.stagger_ms * most
    assert bound.deployments[0].replicas[0].lanes[0].launch_delay_ms == 0


def strings_of(nodes: int) -> list[str]:
    """All arguments and variables of the first and last process of a large plan, without their digits."""
    plan = planned(
        [{"resources": {"nodes": nodes}, "topology": {"tensor_parallel": 8, "nodes_per_replica": 2}}]
    ).unwrap()
    bound = bound_on(plan).unwrap()
    steps = steps_of(bound)
    found: list[str] = []
    for step in (steps[0], steps[-1]):
        for of in lanes_on(bound, step.name, bound.nodes[step.slots[-1]].name):
            found += serve_argv(bound, of)
            found += [f"{k}={v}" for k, v in process_environment(bound, of, {"PATH": "/bin"}, "/tmp/s").items()]
    return found


def test_no_string_grows_with_the_number_of_nodes() -> None:
    few, many = strings_of(8), strings_of(512)
    assert len(few) == len(many)
    room_for_digits = 12
    assert all(len(right) <= len(left) + room_for_digits for left, right in zip(few, many, strict=True))
    assert all(len(text.encode()) < LONGEST_STRING for text in many)


@given(cases(), st.integers(2, 9), st.data())
def test_a_restart_changes_ports_and_identity_of_its_step_only(
    case: Case | None, launch: int, data: st.DataObject
) -> None:
    old = bound_of(case)
    if case is None or old is None:
        return
    step = data.draw(st.sampled_from(steps_of(old)))
    outcome = rebind(case.plan, old, step, launch, case.facts)
    if not is_successful(outcome):
        assert {problem.__struct_config__.tag for problem in outcome.failure()} == {"ports-exhausted"}
        return
    new = outcome.unwrap()
    assert_ports_are_good(case.plan, case.facts, new)
    assert without_what_a_restart_changes(new) == without_what_a_restart_changes(old)
    for former, after in zip(old.deployments, new.deployments, strict=True):
        for was, now in zip(former.replicas, after.replicas, strict=True):
            if former.alias == step.alias and was.index in step.replicas:
                assert now.identity != was.identity
                assert now.identity.endswith(f".{launch}")
            else:
                assert now == was
    fresh = {slot: set(ports) - set(ports_by_slot(old)[slot]) for slot, ports in ports_by_slot(new).items()}
    kept = {slot: set(ports) & set(ports_by_slot(old)[slot]) for slot, ports in ports_by_slot(new).items()}
    for slot in step.slots:
        before = ports_of_step(old, step.alias, step.replicas, slot)
        assert len(fresh[slot]) == len(before)
        assert not kept[slot] & before


def ports_of_step(bound: BoundPlan, alias: str, replicas: tuple[int, ...], slot: int) -> set[int]:
    kept = tuple(
        msgspec.structs.replace(d, replicas=tuple(r for r in d.replicas if d.alias == alias and r.index in replicas))
        for d in bound.deployments
    )
    return set(ports_by_slot(msgspec.structs.replace(bound, deployments=kept, endpoints=()))[slot])


def without_what_a_restart_changes(bound: BoundPlan) -> object:
    plain = msgspec.to_builtins(bound)
    for deployment in plain["deployments"]:
        for replica in deployment["replicas"]:
            for name in ("identity", "master_port", "rpc_port"):
                replica[name] = replica[name] is None
            for lane in replica["lanes"]:
                lane["launch_delay_ms"] = 0
                lane["internal_port"] = lane["internal_port"] is None
                lane["role"].pop("http_port", None)
    return plain


@given(st.integers(1, 5000), st.data())
def test_shards_share_all_records_evenly(records: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, min(records, 300)))
    made = [shard_of(records, count, index) for index in range(count)]
    sizes = [shard.records for shard in made]
    assert sum(sizes) == records
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    assert [shard.offset for shard in made] == [0, *itertools.accumulate(sizes)][:-1]
    assert [shard.index for shard in made] == list(range(count))


@given(
    st.integers(10_000, 10_400),
    st.integers(0, 400),
    st.sets(st.integers(10_000, 10_800), max_size=60),
    st.lists(st.sampled_from([1, 1, 5, 64]), max_size=12),
    st.data(),
)
@settings(max_examples=150)
def test_given_ports_are_free(low: int, width: int, taken: set[int], sizes: list[int], data: st.DataObject) -> None:
    high = low + width
    start = data.draw(st.integers(low, high))
    found = assign_ports(low, high, start, sorted(taken), sizes)
    if found is None:
        assert sum(sizes) + (max(sizes) - 1) * (len(taken) + 1) > width + 1 - len(taken), "there was room"
        return
    given_out = [port for first, size in zip(found, sizes, strict=True) for port in range(first, first + size)]
    assert len(given_out) == len(set(given_out))
    assert all(low <= port <= high for port in given_out)
    assert not set(given_out) & taken


def test_ports_end_below_the_ephemeral_ones() -> None:
    assert port_range(node("n1", ephemeral_low=20_000), (15_000, 30_000)) == (15_000, 19_999)
    assert port_range(node("n1", ephemeral_low=32_768), None) == (10_000, 32_767)
