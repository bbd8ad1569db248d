"""What node workers and server processes left behind at the end of a step, for those who ask why."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from core.layout import lane_log, task_ended
from core.plan.task import TaskEnded
from core.units import NodeName, StepName
from shell.submission.runs import last_lines

_LINES, _LINES_OF_FIRST = 3, 8


def read_ends(tasks: str, step: StepName, launch: int, nodes: Sequence[NodeName]) -> Iterator[TaskEnded]:
    """What the workers on these nodes wrote, as far as they came to it."""
    for node in nodes:
        try:
            with open(task_ended(tasks, step, launch, node), "rb") as file:
                yield msgspec.json.decode(file.read(), type=TaskEnded)
        except (OSError, msgspec.MsgspecError):
            continue


def log_lines(logs: str, step: StepName, launch: int, lane: str | None) -> Iterator[str]:
    """The end of every log of a launch, each line with its file; first and at more length that of `lane`."""
    own = os.path.basename(lane_log(logs, step, launch, lane)) if lane else ""
    names = [name for name in os.listdir(logs) if name.startswith(f"{step}.{launch}.")]
    for name in sorted(names, key=lambda name: (name != own, name)):
        lines = last_lines(f"{logs}/{name}", _LINES_OF_FIRST if name == own else _LINES)
        if name == own and not lines:
            yield f"logs/{name} is empty"
        yield from (f"logs/{name}: {line[:300]}" for line in lines)
