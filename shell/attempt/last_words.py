"""Why the servers of a launch died: the ends of its logs, read for `core.vllm.diagnose`, and the words for people."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from core.layout import lane_log
from core.plan.task import RankEnded, TaskEnded
from core.units import StepName
from core.vllm.diagnose import Diagnosis, RankLog, diagnose_ranks

TAIL_BYTES = 128 * 1024
"""The root cause stands above a traceback per process that passed it on."""
MOST_LOGS = 12
"""The first death is nearly always in one of these; a launch may have hundreds of logs."""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the end of one launch, for `attempt.json`."""

    step: StepName
    launch: int
    diagnosis: Diagnosis


def death_of(
    logs: str, step: StepName, launch: int, ends: Sequence[TaskEnded], lane: str | None, vllm: str | None
) -> Death | None:
    """The probable cause; None when the logs hold nothing that is known. `lane` is the process to blame, if one is."""
    codes = dict(_own_ends(ends))
    first = [lane] if lane else []
    read = [
        RankLog(name=name, lines=_tail(f"{logs}/{name}"), code=codes.get(name))
        for name in _names(logs, step, launch, [*first, *sorted(codes)])
    ]
    found = diagnose_ranks(read, vllm)
    return None if found is None else Death(step=step, launch=launch, diagnosis=found)


def _own_ends(ends: Sequence[TaskEnded]) -> Iterator[tuple[str, int]]:
    """Log and exit code of every process that ended by itself; the others were ended by their node workers."""
    for end in ends:
        if isinstance(end.cause, RankEnded):
            name = os.path.basename(lane_log("", end.step, end.launch, end.cause.lane))
            yield from ((name, ended.code) for ended in end.lanes if ended.name == end.cause.lane)


def _names(logs: str, step: StepName, launch: int, first: Sequence[str]) -> list[str]:
    """The logs of the launch, those of processes that ended by themselves first."""
    wanted = [name if name.endswith(".log") else os.path.basename(lane_log("", step, launch, name)) for name in first]
    names = [name for name in os.listdir(logs) if name.startswith(f"{step}.{launch}.")]
    return sorted(names, key=lambda name: (wanted.index(name) if name in wanted else len(wanted), name))[:MOST_LOGS]


def _tail(path: str) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            return tuple(file.read(TAIL_BYTES).decode(errors="replace").splitlines())
    except OSError:
        return ()


def death_words(death: Death) -> tuple[str, str, str]:
    """The cause, the line that shows it, and what to do."""
    found = death.diagnosis
    return (
        f"probable cause: {found.title} ({found.cause})",
        f"logs/{found.log}: {found.evidence}",
        f"what to do: {found.hint}",
    )
