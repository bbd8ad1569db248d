"""Reading where a job of ours shows up, by its name: in the queue and in the accounting.

An error is not an empty queue. Lines that are not ours (banners, headers of clusters, other names) are passed over, and
the name stands last, since names of others may hold the separator.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from core.submit.answer import CommandAnswer, CutShort, Finished, NotStarted, said
from core.submit.records import Job

QUEUE_FORMAT = "%F|%K|%T|%j"
"""Id (of an array: the common one), index in the array, state, name."""
ACCOUNTING_FIELDS = "JobID,State,JobName"
LARGEST_ARRAY = 4_000_001
"""Slurm's own bound of MaxArraySize."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One job or one task of an array. `index` is None for a job that is no array."""

    job: Job
    index: int | None
    state: str


class Seen(msgspec.Struct, frozen=True, kw_only=True, tag="seen", tag_field="kind"):
    """What was there; nothing is an answer too."""

    rows: tuple[Row, ...]


class Blind(msgspec.Struct, frozen=True, kw_only=True, tag="blind", tag_field="kind"):
    """The queue could not be read, so nothing follows."""

    reason: str


Sight: TypeAlias = Seen | Blind

_CLUSTER = re.compile(r"CLUSTER: (?P<name>\S+)")
_RANGE = re.compile(r"(?P<low>[0-9]{1,7})(?:-(?P<high>[0-9]{1,7})(?::(?P<step>[1-9][0-9]{0,6}))?)?")


def look(queue: CommandAnswer, accounting: CommandAnswer | None, job_name: str) -> Sight:
    """Both together. Without the queue nothing is known; without accounting only that no job of this name is alive."""
    match queue:
        case Finished(code=0, stdout=stdout):
            ended = accounting.stdout if isinstance(accounting, Finished) and accounting.code == 0 else ""
            rows = (*_queue_rows(stdout, job_name), *_accounting_rows(ended, job_name))
            return Seen(rows=tuple(dict.fromkeys(rows)))
        case Finished(code=code, stderr=stderr):
            return Blind(reason=said(stderr) or f"squeue ended with {code}")
        case CutShort(after_s=seconds):
            return Blind(reason=f"squeue gave no answer within {seconds} s")
        case NotStarted(reason=reason):
            return Blind(reason=f"squeue cannot be started: {reason}")


def _queue_rows(stdout: str, job_name: str) -> Iterator[Row]:
    cluster: str | None = None
    for line in stdout.splitlines():
        header = _CLUSTER.match(line.strip())
        cluster = header["name"] if header else cluster
        fields = line.strip().split("|", 3)
        if len(fields) == 4 and fields[3] == job_name and _is_id(fields[0]):
            yield from _rows(Job(job_id=fields[0], cluster=cluster), fields[1], fields[2])


def _accounting_rows(stdout: str, job_name: str) -> Iterator[Row]:
    for line in stdout.splitlines():
        fields = line.strip().split("|", 2)
        if len(fields) != 3 or fields[2] != job_name:
            continue
        job_id, _, task = fields[0].partition("_")
        if _is_id(job_id):
            yield from _rows(Job(job_id=job_id), task.strip("[]") or "N/A", fields[1].partition(" ")[0])


def _rows(job: Job, task: str, state: str) -> Iterator[Row]:
    if task == "N/A":
        yield Row(job=job, index=None, state=state)
    for index in indices_of(task):
        yield Row(job=job, index=index, state=state)


def indices_of(task: str) -> Iterable[int]:
    """The indices in ``3``, ``0,2-4``, ``0-8:2`` and ``5-7%2``. Of a list that was cut (``3-...``) what is legible."""
    indices: dict[int, None] = {}
    for part in task.partition("%")[0].split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            continue
        low, high = int(match["low"]), int(match["high"] or match["low"])
        indices |= dict.fromkeys(range(low, min(high, LARGEST_ARRAY) + 1, int(match["step"] or 1)))
    return tuple(indices)


def _is_id(text: str) -> bool:
    return re.fullmatch("[1-9][0-9]{0,9}", text) is not None
