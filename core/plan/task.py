"""What a node worker says about its processes: once they run, and when they are gone.

`srun` may answer 0 after a node failure and knows one code per task, so node workers write their own results. Runs
inside the serving container: standard library and msgspec only.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from core.units import NodeName, Port, StepName


class LaneStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A server process that was launched. Its pid is also its session and process group."""

    name: str
    pid: int
    at_ms: int
    log: str


class TaskStarted(msgspec.Struct, frozen=True, kw_only=True):
    """All processes of this node are launched. Times are milliseconds since the epoch."""

    step: StepName
    launch: int
    node: NodeName
    worker_pid: int
    lanes: tuple[LaneStarted, ...]


class LaneEnded(msgspec.Struct, frozen=True, kw_only=True):
    """How a server process ended. `code` is negative when a signal killed it."""

    name: str
    pid: int
    code: int
    at_ms: int


class RankEnded(msgspec.Struct, frozen=True, kw_only=True, tag="rank-ended", tag_field="kind"):
    """This process ended first and by itself, so its siblings were ended too."""

    lane: str


class Ordered(msgspec.Struct, frozen=True, kw_only=True, tag="ordered", tag_field="kind"):
    """The node worker was told to stop."""

    signal: str


class PortTaken(msgspec.Struct, frozen=True, kw_only=True, tag="port-taken", tag_field="kind"):
    """A planned port was in use before the launch. `holder` says by whom, as far as it can be seen."""

    lane: str
    address: str
    port: Port
    holder: str


class LaunchFailed(msgspec.Struct, frozen=True, kw_only=True, tag="launch-failed", tag_field="kind"):
    """A process could not be started at all."""

    lane: str
    reason: str


TaskEnd: TypeAlias = RankEnded | Ordered | PortTaken | LaunchFailed
Rest: TypeAlias = Literal["ended", "killed"]


class TaskEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The end of all processes of a step on one node. Times are milliseconds since the epoch.

    `rest` tells whether all that was still running ended on TERM or had to be killed after the grace.
    """

    step: StepName
    launch: int
    node: NodeName
    cause: TaskEnd
    rest: Rest
    lanes: tuple[LaneEnded, ...]
    at_ms: int


class FirstEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The process that ended first and by itself, and so ended the others. `code` is negative for a signal."""

    lane: str
    node: NodeName
    code: int


def first_end(tasks: Iterable[TaskEnded]) -> FirstEnd | None:
    """Which process of a step began its end, out of what its node workers say; None when all were told to stop.

    Clocks of nodes may differ by more than it takes one rank to notice the death of another: ask for one node where
    the order of its news is known.
    """
    found = [
        (ended.at_ms, FirstEnd(lane=ended.name, node=task.node, code=ended.code))
        for task in tasks
        for ended in task.lanes
        if isinstance(task.cause, RankEnded) and task.cause.lane == ended.name
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None
