"""Going on where an earlier attempt at a shard was interrupted, and submitting the job that goes on after this one."""

import os
from collections.abc import Iterator

import msgspec
from returns.pipeline import is_successful

from core.client_spec import Progress
from core.layout import AttemptPaths, RunPaths
from core.plan.model import RunPlan
from core.report import as_text
from core.resume import Asked, Earlier, TakeOver, follow_up, taken_over
from core.supervise.verdict import OutOfTime
from shell.attempt.attempts import AttemptRecord

OUT_OF_TIME = OutOfTime.__struct_config__.tag


def earlier_attempts(run: RunPaths, shard: int, before: int) -> tuple[Earlier, ...]:
    """The attempts with lower numbers, oldest first. One that was killed before its first record is no attempt."""
    return tuple(_earlier(run, shard, before))


def _earlier(run: RunPaths, shard: int, before: int) -> Iterator[Earlier]:
    for number in range(1, before):
        paths = run.attempt(shard, number)
        try:
            with open(paths.attempt, "rb") as file:
                record = msgspec.json.decode(file.read(), type=AttemptRecord)
        except (OSError, msgspec.MsgspecError):
            continue
        cause = msgspec.json.decode(record.cause)
        yield Earlier(
            number=number,
            state=record.state,
            out_of_time=isinstance(cause, dict) and cause.get("kind") == OUT_OF_TIME,
            has_output=_has_entries(paths.output),
            records=records_done(paths),
        )


def records_done(paths: AttemptPaths) -> int:
    """How many records an attempt had made, with those that it was left."""
    try:
        with open(paths.progress, "rb") as file:
            return msgspec.json.decode(file.read(), type=Progress).records_done
    except (OSError, msgspec.MsgspecError):
        return 0


def _has_entries(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def take_over(run: RunPaths, plan: RunPlan, shard: int, number: int) -> TakeOver | None:
    """Move the output that may be gone on with to attempt `number`.

    By one rename, so it is always in exactly one place, and an earlier controller that should still live somewhere can
    no longer write to it.
    """
    earlier = earlier_attempts(run, shard, number)
    chosen = taken_over(plan, earlier, _retried(run)) if earlier else None
    if chosen is not None:
        try:
            os.rename(run.attempt(shard, chosen.number).output, run.attempt(shard, number).output)
        except FileNotFoundError:  # another attempt has been quicker
            return None
    return chosen


def _retried(run: RunPaths) -> Asked | None:
    """What the retry that this job belongs to asked for; None in any other job."""
    from shell.submission.submissions import submission_of

    job_id = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID")
    intent = submission_of(run, job_id) if job_id else None
    return intent.retry.resume if intent and intent.retry else None


def go_on_in_another_job(run: RunPaths, plan: RunPlan, shard: int, number: int, job_id: str) -> str | None:
    """Submit the job that goes on after this one, if that is wanted; what to tell people."""
    # Hardly any attempt comes to this: all others start without it.
    from core.submit.request import Wanted
    from core.submit.state import Queued
    from core.submit.words import tell
    from shell.scheduler import Scheduler
    from shell.submission.submissions import latest_number
    from shell.submission.submit import Submitter

    this = Earlier(
        number=number,
        state="INTERRUPTED",
        out_of_time=True,
        has_output=True,
        records=records_done(run.attempt(shard, number)),
    )
    count = follow_up(plan, (*earlier_attempts(run, shard, number), this))
    if not isinstance(count, int):
        return count
    wanted = Wanted(indices=(shard,), after_job=job_id)
    submitter = Submitter(run.root, Scheduler(plan.site.slurm_bin))
    while True:
        submission = 1 + (latest_number(run) or 0)
        ended = submitter.submit_own(submission, wanted)
        if not is_successful(ended):
            return "; ".join(map(as_text, ended.failure()))
        end = ended.unwrap()
        if end is not None:
            break  # else another task of the array has taken this number for itself
    if isinstance(end, Queued):
        return f"job {end.submitted.job.job_id} goes on after this one (follow-up {count})"
    return tell(end, run.root, run.submission(submission).logs).message
