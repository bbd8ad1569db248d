"""From all that is seen of a run to one state per shard. Total: any combination of sightings has an answer.

What decides, in this order: a winner; a task in the queue; a submission that is not settled; a queue that cannot be
read; then the end of the last task, in the words of its own attempt where it has written them, else in accounting's.
Exit code 0 of a job proves nothing. A word that is not known is never an end.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from core.record.ended import Gone, judge_gone
from core.record.rows import Accounted, AccountRow, InQueue, QueueRow, QueueUnread
from core.record.shard_state import (
    Alive,
    AliveKind,
    NotSubmitted,
    ShardState,
    ShardStatus,
    Unclear,
    Unknown,
    Won,
)
from core.record.sightings import AttemptSeen, ShardSeen, Sightings, SubmissionSeen, Task, tasks_of
from core.slurm.job_state import phase

_Key = tuple[str, int | None]
_ENDING = frozenset({"COMPLETING", "PREEMPTED", "REVOKED", "SIGNALING", "STAGE_OUT"})
_STOPPED = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "STOPPED", "SUSPENDED", "LAUNCH_FAILED"})
_RUNNING = frozenset({"RUNNING", "CONFIGURING", "RESIZING", "POWER_UP_NODE"})
_NEVER = (
    "held",
    "never satisfied",
    "neversatisfied",
    "badconstraints",
    "invalid",
    "jobarraytasklimit0",
    "partitiontimelimit",
    "partitionnodelimit",
    "partitionconfig",
)
"""Parts of reasons of pending jobs that nobody but a person will end."""
_ORDER: tuple[AliveKind, ...] = ("running", "ending", "pending", "stuck")


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    """Rows by task, for runs of many shards."""

    queue: Mapping[_Key, QueueRow]
    cut: frozenset[str]
    accounting: Mapping[_Key, tuple[AccountRow, ...]]
    absences: Mapping[str, int]
    arrays: frozenset[str]


def reconcile(seen: Sightings) -> tuple[ShardStatus, ...]:
    """One status per shard, in order."""
    index = _index(seen)
    return tuple(_status(shard, seen, index) for shard in seen.shards)


def missing_tasks(seen: Sightings) -> tuple[str, ...]:
    """Tasks of shards without a winner that the queue, which could be read, does not hold."""
    if isinstance(seen.queue, QueueUnread):
        return ()
    there = {key for key, row in _index(seen).queue.items() if phase(row.state, in_queue=True) != "ended"}
    return tuple(
        task.name
        for shard in seen.shards
        if shard.winner is None
        for task in tasks_of(shard.shard, seen.submissions)[-1:]
        if (task.job.job_id, task.index) not in there
    )


def _index(seen: Sightings) -> _Index:
    queue = seen.queue if isinstance(seen.queue, InQueue) else InQueue(rows=())
    accounting: dict[_Key, tuple[AccountRow, ...]] = {}
    for row in seen.accounting.rows if isinstance(seen.accounting, Accounted) else ():
        key = (row.job_id, row.index)
        accounting[key] = (*accounting.get(key, ()), row)
    return _Index(
        queue={(row.job_id, row.index): row for row in queue.rows},
        cut=frozenset(queue.cut),
        accounting=accounting,
        absences={absence.task: absence.for_ms for absence in seen.absences},
        arrays=frozenset(
            job for job, task in (*accounting, *((r.job_id, r.index) for r in queue.rows)) if task is not None
        ),
    )


def _status(shard: ShardSeen, seen: Sightings, index: _Index) -> ShardStatus:
    return ShardStatus(
        shard=shard.shard,
        state=_state(shard, seen, index),
        attempts=len(shard.attempts),
        records_done=max((one.records for one in shard.attempts), default=0),
        records_wanted=shard.records_wanted,
        said=shard.attempts[-1].said if shard.attempts else (),
    )


def _state(shard: ShardSeen, seen: Sightings, index: _Index) -> ShardState:
    tasks = tasks_of(shard.shard, seen.submissions)
    alive = min(_alive(tasks, index), key=lambda one: _ORDER.index(one.phase), default=None)
    if shard.winner is not None:
        return Won(attempt=shard.winner, alive=alive.task if alive else None)
    if alive is not None:
        return alive
    unclear = [one.number for one in seen.submissions if one.state == "unclear" and one.covers(shard.shard)]
    if unclear:
        return Unclear(submission=unclear[-1])
    if not tasks:
        return NotSubmitted(why=_why_not(shard.shard, seen.submissions))
    last = tasks[-1]
    doubt = _doubt(tasks, seen, index)
    if doubt is not None:
        return Unknown(why=doubt)
    rows = index.accounting.get((last.job.job_id, last.index), ())
    gone = Gone(
        task=last,
        shown=index.queue.get((last.job.job_id, last.index)),
        array_known=last.job.job_id in index.arrays,
        rows=rows,
        attempt=_attempt_of(last, rows, shard.attempts, seen.submissions),
        absent_ms=index.absences.get(last.name, 0),
        unaccounted=None if isinstance(seen.accounting, Accounted) else seen.accounting.reason,
    )
    return judge_gone(gone)


def _alive(tasks: Sequence[Task], index: _Index) -> Iterator[Alive]:
    for task in tasks:
        row = index.queue.get((task.job.job_id, task.index))
        if row is not None and phase(row.state, in_queue=True) == "alive":
            yield Alive(phase=_alive_kind(row), task=task, state=row.state, reason=row.reason, nodes=row.nodes)


def _alive_kind(row: QueueRow) -> AliveKind:
    if row.state in _ENDING:
        return "ending"
    if row.state in _STOPPED or (row.state not in _RUNNING and any(word in row.reason.lower() for word in _NEVER)):
        return "stuck"
    return "running" if row.state in _RUNNING else "pending"


def _doubt(tasks: Sequence[Task], seen: Sightings, index: _Index) -> str | None:
    """Why it cannot be said that no task of a shard is alive."""
    if isinstance(seen.queue, QueueUnread):
        return f"the queue cannot be read: {seen.queue.reason}"
    for task in tasks:
        row = index.queue.get((task.job.job_id, task.index))
        if row is not None and phase(row.state, in_queue=True) == "unknown":
            return f"job {task.name} is {row.state}, a state that is not known"
        if row is None and task.job.job_id in index.cut:
            return f"squeue cut the list of tasks of job {task.job.job_id}"
    return None


def _why_not(shard: int, submissions: Sequence[SubmissionSeen]) -> str:
    last = next((one for one in reversed(submissions) if one.covers(shard)), None)
    words = {
        "refused": "Slurm refused the job",
        "not-accepted": "Slurm did not take the job",
        "absent": "no job came up",
    }
    return words.get(last.state, "no submission") if last else "no submission holds this shard"


def _attempt_of(
    task: Task, rows: Sequence[AccountRow], attempts: Sequence[AttemptSeen], submissions: Sequence[SubmissionSeen]
) -> AttemptSeen | None:
    """The last attempt that the task made: by its id where accounting tells it, else the last one since submission."""
    ids = {row.raw_id for row in rows} | ({task.job.job_id} if task.index is None else set[str]())
    own = [one for one in attempts if one.job_id in ids]
    if ids:
        return own[-1] if own else None
    since = next((one.created_unix_ms for one in submissions if one.number == task.submission), 0)
    later = [one for one in attempts if one.started_unix_ms >= since]
    return later[-1] if later else None
