"""What became of a task that has left the queue.

Accounting lags behind, and shared file systems show new files late; so what is missing is waited for, by a clock that
never jumps, and then counts as lost.
"""

import msgspec

from core.record.rows import AccountRow, QueueRow, newest
from core.record.shard_state import Ended, EndKind, Settling, ShardState, Unknown
from core.record.sightings import AttemptSeen, Task
from core.slurm.job_state import cancelled_by, phase

LOST_AFTER_MS = 300_000
"""Nothing of it in the queue, and no end in the accounting."""
NEVER_STARTED_AFTER_MS = 60_000
"""Not in the queue, and without a start in the accounting, which is not late for so long while it answers."""
RESULT_AFTER_MS = 120_000
"""A job that ended well whose result does not show: twice what NFS clients may answer from their cache."""

_BY_STATE: dict[str, EndKind] = {
    "TIMEOUT": "timeout",
    "NODE_FAIL": "node-fail",
    "OUT_OF_MEMORY": "out-of-memory",
    "PREEMPTED": "preempted",
    "DEADLINE": "deadline",
    "BOOT_FAIL": "boot-fail",
    "REVOKED": "revoked",
}
_WORDS: dict[EndKind, str] = {
    "timeout": "the time limit ended it",
    "node-fail": "a node failed",
    "out-of-memory": "it used more memory than it was given",
    "preempted": "it made room for other jobs",
    "deadline": "its deadline passed",
    "boot-fail": "its nodes could not be booted",
    "revoked": "another cluster took it",
}


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of it. `unaccounted` says why there is no accounting; None when there is.

    `shown` is how the queue shows it: for some minutes it still holds jobs that have ended. But a task of an array that
    is cancelled while it waits vanishes at once (22.05), and accounting says PENDING until the whole array is over, or,
    where it was submitted held, nothing at all. `array_known` says that other tasks of its array are seen.
    """

    task: Task
    shown: QueueRow | None
    array_known: bool
    rows: tuple[AccountRow, ...]
    attempt: AttemptSeen | None
    absent_ms: int
    unaccounted: str | None


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm says of the end. `failure` are the words for a bad exit code, `derived` is the worst one of a step."""

    state: str
    user: str | None
    nodes: str
    failure: str
    derived: int


def judge_gone(gone: Gone) -> ShardState:
    """How it ended, or what is waited for."""
    row = newest(gone.rows)
    if row is not None and phase(row.state, in_queue=False) == "unknown":
        return Unknown(why=f"accounting says {row.state_text!r}, a state that is not known")
    if row is not None and phase(row.state, in_queue=False) == "ended":
        return _by_slurm(gone, _accounted(row))
    if gone.shown is not None:
        return _by_slurm(gone, _shown(gone.shown))
    if row is None:
        return _by_attempt(gone, "") or _wait_for_word(gone)
    return _by_attempt(gone, row.nodes) or _late(gone, row)


def _late(gone: Gone, row: AccountRow) -> ShardState:
    """Accounting tells of an earlier time. A task that never started and is not in the queue cannot start any more."""
    meanwhile = f"accounting still says {row.state}"
    if row.state == "PENDING" and not row.start and gone.attempt is None:
        return _wait(gone, NEVER_STARTED_AFTER_MS, meanwhile, "cancelled", "cancelled while it waited", "")
    return _wait(gone, LOST_AFTER_MS, meanwhile, "lost", _lost(gone), row.nodes)


def _accounted(row: AccountRow) -> _End:
    how = f"signal {row.signal}" if row.signal else f"exit code {row.code}"
    return _End(
        state=row.state,
        user=cancelled_by(row.state_text),
        nodes=row.nodes,
        failure=f"the job ended with {how}, and its controller did not say why",
        derived=row.derived,
    )


def _shown(row: QueueRow) -> _End:
    failure = f"the job failed ({row.reason}), and its controller did not say why"
    return _End(state=row.state, user=None, nodes=row.nodes, failure=failure, derived=0)


def _by_slurm(gone: Gone, end: _End) -> ShardState:
    if end.state == "CANCELLED":
        return _ended(gone, "cancelled", f"cancelled by user {end.user}" if end.user else "cancelled", end.nodes)
    if end.state in _BY_STATE:
        kind = _BY_STATE[end.state]
        where = f" ({end.nodes})" if kind == "node-fail" and end.nodes else ""
        return _ended(gone, kind, f"{_WORDS[kind]}{where}", end.nodes)
    if end.state == "COMPLETED":
        derived = f"; a step of it ended with {end.derived}" if end.derived else ""
        why = f"the job ended well but there is no result{derived}"
        return _wait(gone, RESULT_AFTER_MS, "the result is not visible yet", "no-result", why, end.nodes)
    return _by_attempt(gone, end.nodes) or _ended(gone, "failed", end.failure, end.nodes)


def _by_attempt(gone: Gone, nodes: str) -> ShardState | None:
    """In the words of the attempt; None when it has not written its end."""
    attempt = gone.attempt
    if attempt is None or attempt.ended_unix_ms is None:
        return None
    where = nodes or ",".join(attempt.nodes)
    why = _last_word(attempt)
    if attempt.state == "COMPLETED":
        return _wait(gone, RESULT_AFTER_MS, "the result is not visible yet", "no-result", why, where)
    if attempt.cause == "out-of-time":
        return _ended(gone, "out-of-time", why, where)
    return _ended(gone, "interrupted" if attempt.state == "INTERRUPTED" else "failed", why, where)


def _last_word(attempt: AttemptSeen) -> str:
    """The end of the story, without its time."""
    last = attempt.said[-1].strip() if attempt.said else ""
    words = last.partition(" s  ")[2] or last
    return words or f"attempt {attempt.number} ended with exit code {attempt.exit_code}"


def _wait_for_word(gone: Gone) -> ShardState:
    if gone.unaccounted is None and gone.array_known and gone.attempt is None:
        meanwhile = "accounting does not know it yet"
        return _wait(gone, NEVER_STARTED_AFTER_MS, meanwhile, "cancelled", "cancelled while it waited", "")
    if gone.unaccounted is None:
        return _wait(gone, LOST_AFTER_MS, "accounting does not know it yet", "lost", _lost(gone), "")
    why = f"it has left the queue, and there is no accounting ({gone.unaccounted})"
    return _wait(gone, LOST_AFTER_MS, why, "lost", _lost(gone), "")


def _lost(gone: Gone) -> str:
    if gone.attempt is not None:
        return f"attempt {gone.attempt.number} was killed before it could record its end"
    return "it is gone, and nothing says what became of it"


def _wait(gone: Gone, limit_ms: int, meanwhile: str, kind: EndKind, why: str, nodes: str) -> Settling | Ended:
    left = limit_ms - gone.absent_ms
    return Settling(task=gone.task, why=meanwhile, left_ms=left) if left > 0 else _ended(gone, kind, why, nodes)


def _ended(gone: Gone, kind: EndKind, why: str, nodes: str) -> Ended:
    return Ended(end=kind, task=gone.task, why=why, nodes=nodes)
