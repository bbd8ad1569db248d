"""What ``srun`` itself says about its tasks, on stderr, the moment it hears of it.

``srun: error: c2: task 1: Exited with exit code 3``, ``srun: error: c[1-2]: tasks 0-1: Killed``. A task that ends with
0 is not spoken of. The same words in 20.11 to 26.05.
"""

import re

import msgspec
from returns.pipeline import is_successful

from core.problem import At
from core.slurm.hostnames import expand_hostlist
from core.units import NodeName

_TASKS = re.compile(r"srun: error: (?P<nodes>\S+): tasks? [0-9,\-]+: (?P<what>.+)")
_CODE = re.compile(r"Exited with exit code ([0-9]{1,3})")
_SIGNALS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Trace/breakpoint trap": 5,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "User defined signal 2": 12,
    "Broken pipe": 13,
    "Alarm clock": 14,
    "Terminated": 15,
    "CPU time limit exceeded": 24,
    "File size limit exceeded": 25,
    "I/O possible": 29,
    "Power failure": 30,
    "Bad system call": 31,
    "Out Of Memory": 9,
}


class TasksEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks on these nodes are gone. `code` is negative when a signal killed them."""

    nodes: tuple[NodeName, ...]
    code: int


def read_srun_line(line: str) -> TasksEnded | None:
    """What the line tells of tasks; None for all else that ``srun`` and tasks print."""
    found = _TASKS.fullmatch(line.strip())
    if found is None:
        return None
    code = _code(found["what"])
    nodes = expand_hostlist(found["nodes"], At(source="srun"))
    return TasksEnded(nodes=nodes.unwrap(), code=code) if code is not None and is_successful(nodes) else None


def _code(what: str) -> int | None:
    exited = _CODE.fullmatch(what)
    if exited is not None:
        return int(exited[1])
    number = _SIGNALS.get(what.removesuffix(" (core dumped)"))
    return None if number is None else -number


MOST_TRIES = 6
_NOT_CREATED = re.compile(r"srun: \w+: (?:unable to create step for job \S+:|.*step context).*", re.IGNORECASE)
_PASSING = (
    "step context",
    "socket timed out",
    "unable to contact slurm controller",
    "zero bytes were transmitted",
    "unexpected message received",
    "resource temporarily unavailable",
    "address already in use",
    "transport endpoint is not connected",
    "connection refused",
    "connection reset",
)
"""Many steps at once on one host, a daemon that is busy or starting anew: nothing that a plan could change."""


def failed_in_passing(line: str) -> bool:
    """Whether the line says that the step could not be made *now*. None of its tasks has started."""
    found = _NOT_CREATED.fullmatch(line.strip())
    return found is not None and any(reason in line.lower() for reason in _PASSING)


_NOT_LAUNCHED = re.compile(r"srun: error: Task launch for \S+ failed on node \S+: .+")


def failed_on_a_node(line: str) -> bool:
    """Whether the line says that a node did not take its task: just booted, busy, or out of reach for a moment.

    Other nodes may have begun, so only work that may be done twice can be tried again.
    """
    return _NOT_LAUNCHED.fullmatch(line.strip()) is not None


def pause_before_try_s(number: int) -> float | None:
    """How long to wait before try `number`, counted from 2; None when that is one too many."""
    return None if number > MOST_TRIES else 0.5 * 2 ** (number - 2)
