"""Our own jobs as ``squeue`` and ``sacct`` tell of them, asked by id.

An error of ``squeue`` is not an empty queue, but one: ids that Slurm has forgotten are an error where nothing else was
asked for. Accounting may be missing; then it says nothing, and why. A job of another name under an id of ours is not
ours: ids begin anew after 67 million. Names stand last, since they may hold the separator.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from core.slurm.job_state import state_word
from core.submit.answer import CommandAnswer, CutShort, Finished, NotStarted, said
from core.submit.sight import indices_of

QUEUE_FORMAT = "%A|%F|%K|%T|%r|%N|%j"
"""Id, id of the array, index in it, state, reason, nodes, name."""
ACCOUNTING_FIELDS = "JobIDRaw,JobID,State,ExitCode,DerivedExitCode,Submit,Start,End,NodeList,JobName"
IDS_PER_CALL = 200
"""So that a call stays far below what a command line may hold and what sites let pass."""

Tasks: TypeAlias = Mapping[tuple[str, int | None], "QueueRow"]


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, or a task of an array, in the queue. `raw_id` is what the job calls itself; `nodes` is a host list."""

    raw_id: str
    job_id: str
    index: int | None
    state: str
    reason: str
    nodes: str


class InQueue(msgspec.Struct, frozen=True, kw_only=True, tag="in-queue", tag_field="kind"):
    """All that waits or runs, and what has ended a few minutes ago.

    `cut` are arrays whose list of tasks did not fit into its field.
    """

    rows: tuple[QueueRow, ...]
    cut: tuple[str, ...] = ()


class QueueUnread(msgspec.Struct, frozen=True, kw_only=True, tag="queue-unread", tag_field="kind"):
    """The queue could not be read, so nothing follows."""

    reason: str


class AccountRow(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job or task; a requeued one has several. `state_text` is as it was written."""

    raw_id: str
    job_id: str
    index: int | None
    state: str
    state_text: str
    code: int
    signal: int
    derived: int
    submit: str
    start: str
    end: str
    nodes: str


class Accounted(msgspec.Struct, frozen=True, kw_only=True, tag="accounted", tag_field="kind"):
    """In the order of ``sacct``."""

    rows: tuple[AccountRow, ...]


class NoAccounting(msgspec.Struct, frozen=True, kw_only=True, tag="no-accounting", tag_field="kind"):
    """There is none, or it could not be asked."""

    reason: str


Queue: TypeAlias = InQueue | QueueUnread
Accounting: TypeAlias = Accounted | NoAccounting

_ID = re.compile("[1-9][0-9]{0,9}")
_NO_SUCH_JOB = re.compile("invalid job id", re.IGNORECASE)


def chunks(ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """What is asked in one call each, every id once."""
    unique = tuple(dict.fromkeys(ids))
    return tuple(unique[start : start + IDS_PER_CALL] for start in range(0, len(unique), IDS_PER_CALL))


def read_queue(answers: Sequence[CommandAnswer], names: Mapping[str, str]) -> Queue:
    """Several answers of ``squeue`` joined. `names` maps our ids to the names that we gave."""
    rows: list[QueueRow] = []
    cut: list[str] = []
    for answer in answers:
        reason = _failure(answer, "squeue")
        if reason is not None:
            return QueueUnread(reason=reason)
        for fields in _lines(answer, 7):
            if names.get(fields[1]) == fields[6]:
                rows.extend(_queue_rows(fields))
                cut.extend([fields[1]] if "..." in fields[2] else [])
    return InQueue(rows=tuple(rows), cut=tuple(dict.fromkeys(cut)))


def _failure(answer: CommandAnswer, command: str) -> str | None:
    match answer:
        case Finished(code=0):
            return None
        case Finished(stdout=stdout, stderr=stderr) if _NO_SUCH_JOB.search(stderr) and not stdout.strip():
            return None
        case Finished(code=code, stderr=stderr):
            return said(stderr) or f"{command} ended with {code}"
        case CutShort(after_s=seconds):
            return f"{command} gave no answer within {seconds} s"
        case NotStarted(reason=reason):
            return f"{command} cannot be started: {reason}"


def _lines(answer: CommandAnswer, count: int) -> Iterator[list[str]]:
    """The fields of each line that has so many; banners and headers of clusters have not."""
    for line in answer.stdout.splitlines() if isinstance(answer, Finished) else ():
        fields = line.strip().split("|", count - 1)
        if len(fields) == count and _ID.fullmatch(fields[0]):
            yield fields


def _queue_rows(fields: Sequence[str]) -> Iterator[QueueRow]:
    raw_id, job_id, task, state, reason, nodes, _ = fields
    indices = (None,) if task == "N/A" else indices_of(task)
    for index in indices:
        yield QueueRow(
            raw_id=raw_id,
            job_id=job_id,
            index=index,
            state=state_word(state),
            reason=reason.strip(),
            nodes=nodes.strip(),
        )


def read_accounting(answers: Sequence[CommandAnswer], names: Mapping[str, str]) -> Accounting:
    """Several answers of ``sacct`` joined."""
    rows: list[AccountRow] = []
    for answer in answers:
        reason = _failure(answer, "sacct")
        if reason is not None:
            return NoAccounting(reason=reason)
        rows.extend(row for fields in _lines(answer, 10) for row in _account_rows(fields, names))
    return Accounted(rows=tuple(rows))


def _account_rows(fields: Sequence[str], names: Mapping[str, str]) -> Iterator[AccountRow]:
    raw_id, task, state, exit_code, derived, submit, start, end, nodes, name = fields
    job_id, is_array, part = task.partition("_")
    if names.get(job_id) != name:
        return
    code, signal = _exit_status(exit_code)
    for index in indices_of(part.strip("[]")) if is_array else (None,):
        yield AccountRow(
            raw_id=raw_id,
            job_id=job_id,
            index=index,
            state=state_word(state),
            state_text=state.strip(),
            code=code,
            signal=signal,
            derived=_exit_status(derived)[0],
            submit=_moment(submit),
            start=_moment(start),
            end=_moment(end),
            nodes="" if nodes.strip() == "None assigned" else nodes.strip(),
        )


def _exit_status(text: str) -> tuple[int, int]:
    code, _, signal = text.partition(":")
    return int(code) if code.isdecimal() else 0, int(signal) if signal.isdecimal() else 0


def _moment(text: str) -> str:
    return "" if text in ("Unknown", "None") else text


def newest(rows: Sequence[AccountRow]) -> AccountRow | None:
    """The last start of a task: submitted last; of those started last; one that has not started is the latest."""
    order = enumerate(rows)
    found = max(order, key=lambda one: (one[1].submit, one[1].start or "~", one[0]), default=None)
    return found[1] if found else None
