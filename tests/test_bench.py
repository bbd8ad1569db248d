"""The benchmarks run, in a tiny size and without the peer, and their figures are of what they say."""

import sys
from collections.abc import Callable
from types import FrameType

import msgspec
import pytest

from bench import planning, startup
from core.plan.bound import BoundPlan


def test_the_table_of_planning_has_a_line_per_shape_and_size_and_says_how_cost_grows() -> None:
    rows = [planning.measure(nodes, shape, None, 1) for shape in planning.SHAPES for nodes in (2, 4)]
    text = planning.table(rows)
    assert [line.split("|")[1:3] for line in text.splitlines()[2:6]] == [
        [" TP 8 PP 2 ", " 2 "],
        [" TP 8 PP 2 ", " 4 "],
        [" TP 1 ", " 2 "],
        [" TP 1 ", " 4 "],
    ]
    assert text.count("ours nodes^") == 2
    assert "peer nodes^" not in text


def test_the_plan_that_is_measured_uses_every_gpu() -> None:
    for shape in planning.SHAPES:
        plan = msgspec.json.decode(planning.planner(4, shape)(), type=BoundPlan)
        lanes = [lane for replica in plan.deployments[0].replicas for lane in replica.lanes]
        assert sum(len(lane.gpu_indices) for lane in lanes) == 4 * planning.GPUS


def test_a_worker_that_is_measured_has_servers_to_start() -> None:
    assert planning.one_worker(planning.planner(4, planning.Shape(8, 2))()) == 1
    assert planning.one_worker(planning.planner(1024, planning.Shape(1, 1))()) == planning.GPUS


def test_growth_is_the_exponent() -> None:
    assert planning.growth((10, 1.0), (100, 100.0)) == 2.0


def test_the_cost_of_a_start_is_that_of_the_child() -> None:
    idle = startup.start_cost((sys.executable, "-S", "-c", "pass"), 1)
    busy = startup.start_cost((sys.executable, "-S", "-c", "x = b'.' * (256 << 20); sum(range(2_000_000))"), 1)
    assert busy.cpu_s > idle.cpu_s
    assert busy.memory_mib > 256


def test_the_table_of_starts_compares_with_the_entrypoint_of_the_peer() -> None:
    costs = {"ours": startup.Cost(0.02, 10), startup.REFERENCE: startup.Cost(1.0, 140)}
    assert "| ours | 20 | 10 | 50 |" in startup.table(costs)


def _calls(work: Callable[[], object]) -> int:
    """Calls of Python and C functions, which do not depend on how busy the machine is."""
    seen = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize("shape", planning.SHAPES, ids=lambda shape: shape.text)
def test_planning_four_times_the_nodes_is_four_times_the_work(shape: planning.Shape) -> None:
    small, large = planning.planner(64, shape), planning.planner(256, shape)
    small()  # what is kept from call to call is made now
    assert planning.growth((64, _calls(small)), (256, _calls(large))) <= 1.02


def test_a_worker_does_no_more_in_a_larger_plan_beyond_reading_it() -> None:
    """It must not build anything per replica of the others: thousands of workers do this at once."""
    small, large = (planning.planner(nodes, planning.Shape(1, 1))() for nodes in (256, 1024))
    planning.one_worker(small)
    assert _calls(lambda: planning.one_worker(large)) < 1.5 * _calls(lambda: planning.one_worker(small))
