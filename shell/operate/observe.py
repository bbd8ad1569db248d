"""One look at a run: its files, and its jobs by their ids in the queue and in the accounting. Changes nothing of it."""

import os
from collections.abc import Callable, Iterator, Sequence

import msgspec

from core.layout import RunPaths
from core.plan.model import RunPlan
from core.plan.shards import shard_of
from core.record.reconcile import missing_tasks
from core.record.rows import Accounting, NoAccounting, Queue, chunks, read_accounting, read_queue
from core.record.sightings import AttemptSeen, ShardSeen, Sightings, SubmissionSeen, SubmissionState
from core.submit.answer import CommandAnswer
from core.submit.records import Absent, NotAccepted, Receipt, Refused, Submitted
from shell.attempt.attempts import AttemptRecord
from shell.attempt.interpreter import monotonic_ms
from shell.attempt.results import Winner
from shell.attempt.resume import records_done
from shell.operate.absences import absences
from shell.scheduler import Scheduler
from shell.submission.submissions import latest_number, read_receipt, take_up

STORY_LINES = 5


def observe(root: str, plan: RunPlan, scheduler: Scheduler) -> Sightings:
    """Everything that can be seen now. Files come first: what they say is then no older than what Slurm says.

    Raises `msgspec.MsgspecError` for records of another version.
    """
    run = RunPaths(root=root)
    submissions = read_submissions(run)
    queue, accounting = _ask(scheduler, submissions)
    seen = Sightings(
        shards=tuple(_shard(run, plan, shard) for shard in range(plan.request.array_count)),
        submissions=submissions,
        queue=queue,
        accounting=accounting,
    )
    missing = absences(run.absences, missing_tasks(seen), monotonic_ms())
    return msgspec.structs.replace(seen, absences=missing)


def read_submissions(run: RunPaths) -> tuple[SubmissionSeen, ...]:
    """All submissions of the run, oldest first."""
    return tuple(
        _submission(run, number)
        for number in range(1, 1 + (latest_number(run) or 0))
        if os.path.exists(run.submission(number).intent)
    )


def _submission(run: RunPaths, number: int) -> SubmissionSeen:
    intent, _ = take_up(run.root, number)
    paths = run.submission(number)
    receipt = read_receipt(paths)
    return SubmissionSeen(
        number=number,
        state=_submission_state(receipt, os.path.exists(paths.released)),
        job=receipt.job if isinstance(receipt, Submitted) else None,
        job_name=intent.job_name,
        shards=intent.indices,
        created_unix_ms=intent.created_unix_ms,
    )


def _submission_state(receipt: Receipt | None, released: bool) -> SubmissionState:
    match receipt:
        case None:
            return "unclear"
        case Submitted():
            return "submitted" if released else "held"
        case Refused():
            return "refused"
        case NotAccepted():
            return "not-accepted"
        case Absent():
            return "absent"


def _ask(scheduler: Scheduler, submissions: Sequence[SubmissionSeen]) -> tuple[Queue, Accounting]:
    names = {one.job.job_id: one.job_name for one in submissions if one.job}
    since = min((one.created_unix_ms for one in submissions), default=0)
    queue = tuple(_per_cluster(submissions, scheduler.queue))
    accounting = tuple(_per_cluster(submissions, lambda ids, where: scheduler.accounting(ids, where, since)))
    ended = read_accounting(accounting, names) if names else NoAccounting(reason="nothing was submitted")
    return read_queue(queue, names), ended


def _per_cluster(
    submissions: Sequence[SubmissionSeen], ask: Callable[[Sequence[str], str | None], CommandAnswer]
) -> Iterator[CommandAnswer]:
    jobs = [one.job for one in submissions if one.job]
    for cluster in dict.fromkeys(job.cluster for job in jobs):
        for ids in chunks([job.job_id for job in jobs if job.cluster == cluster]):
            yield ask(ids, cluster)


def _shard(run: RunPaths, plan: RunPlan, shard: int) -> ShardSeen:
    attempts = tuple(_attempts(run, shard))
    return ShardSeen(
        shard=shard,
        records_wanted=shard_of(plan.invocation.num_records, plan.request.array_count, shard).records,
        winner=read_winner(run, shard),
        attempts=attempts,
    )


def read_winner(run: RunPaths, shard: int) -> int | None:
    """The attempt whose result counts; None while there is none."""
    try:
        with open(run.winner(shard), "rb") as file:
            return msgspec.json.decode(file.read(), type=Winner).attempt
    except FileNotFoundError:
        return None


def _attempts(run: RunPaths, shard: int) -> Iterator[AttemptSeen]:
    """Oldest first. One that was killed before its first record is none."""
    try:
        names = os.listdir(run.attempts(shard))
    except FileNotFoundError:
        return
    for number in sorted(int(name) for name in names if name.isdecimal()):
        paths = run.attempt(shard, number)
        try:
            with open(paths.attempt, "rb") as file:
                record = msgspec.json.decode(file.read(), type=AttemptRecord)
        except FileNotFoundError:
            continue
        yield _attempt(record, records_done(paths))


def _attempt(record: AttemptRecord, records: int) -> AttemptSeen:
    cause = msgspec.json.decode(record.cause)
    return AttemptSeen(
        number=record.number,
        job_id=record.job_id,
        nodes=record.nodes,
        state=record.state,
        started_unix_ms=record.started_unix_ms,
        ended_unix_ms=record.ended_unix_ms,
        exit_code=record.exit_code,
        cause=cause.get("kind") if isinstance(cause, dict) else None,
        records=records,
        said=record.story[-STORY_LINES:],
    )
