"""Which process began the end of a step, out of what the node workers wrote."""

from core.plan.task import FirstEnd, LaneEnded, Ordered, RankEnded, TaskEnd, TaskEnded, first_end
from core.units import NodeName, StepName


def ended(node: str, cause: TaskEnd, *lanes: tuple[str, int, int]) -> TaskEnded:
    return TaskEnded(
        step=StepName("writer-0"),
        launch=1,
        node=NodeName(node),
        cause=cause,
        rest="ended",
        lanes=tuple(LaneEnded(name=name, pid=1, code=code, at_ms=at) for name, code, at in lanes),
        at_ms=99,
    )


def test_the_lane_that_ended_first_and_not_its_siblings() -> None:
    task = ended("n1", RankEnded(lane="r1"), ("r0", -15, 5), ("r1", -9, 7))
    assert first_end([task]) == FirstEnd(lane="r1", node=NodeName("n1"), code=-9)


def test_the_earliest_of_several_nodes() -> None:
    late = ended("n1", RankEnded(lane="r0"), ("r0", 1, 8))
    early = ended("n2", RankEnded(lane="r1"), ("r1", 3, 7))
    assert first_end([late, early]) == FirstEnd(lane="r1", node=NodeName("n2"), code=3)


def test_nobody_when_all_were_told_to_stop() -> None:
    assert first_end([ended("n1", Ordered(signal="SIGTERM"), ("r0", -15, 5))]) is None
    assert first_end([]) is None
