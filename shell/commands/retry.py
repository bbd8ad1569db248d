"""``dd-slurm retry`` and ``dd-slurm cancel``, and how they answer."""

import sys

import msgspec
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.record.retry import Passed, RetryAsked
from core.submit import state as s
from core.submit.records import Resume
from core.submit.words import EX_TEMPFAIL, progress, tell
from shell.commands.answer import EX_OK, refuse
from shell.operate.cancel import cancel_run
from shell.operate.opened import Opened, open_run, unreadable
from shell.operate.retry import Retried, retry_run

PATIENCE = s.Patience()
INTERRUPTED = 130


class RetrySaid(msgspec.Struct, frozen=True, kw_only=True):
    """What `dd-slurm retry --json` prints. `state` is `planned` after --dry-run, else as `dd-slurm submit` has it."""

    run_dir: str
    submission: int
    state: str
    job_id: str | None
    shards: tuple[int, ...]
    reasons: tuple[str, ...]
    passed: tuple[Passed, ...]
    resume: Resume
    excluded: tuple[str, ...]
    time_limit: str | None
    doubt: str | None
    exit_code: int
    message: str
    next_steps: tuple[str, ...]


def retry(folder: str, asked: RetryAsked, dry_run: bool, as_json: bool) -> int:
    """Plan it, say what is planned, submit it."""
    opened = open_run(folder)
    if not is_successful(opened):
        return refuse(opened.failure(), as_json)
    run = opened.unwrap()
    try:
        retried = retry_run(run, asked, dry_run, PATIENCE, _tell_progress)
    except KeyboardInterrupt:
        print(f"stopped; whether there is a job is settled by: dd-slurm submit {run.run.root}", file=sys.stderr)
        return INTERRUPTED
    except (OSError, msgspec.MsgspecError) as error:
        return refuse((unreadable(folder, error),), as_json)
    if not is_successful(retried):
        return refuse(retried.failure(), as_json)
    said = retry_said(run, retried.unwrap())
    if as_json:
        sys.stdout.write(canonical_json(said).decode())
    else:
        _print(said)
    return said.exit_code


def retry_said(opened: Opened, retried: Retried) -> RetrySaid:
    """In words."""
    root, end, plan = opened.run.root, retried.end, retried.plan
    paths = opened.run.submission(retried.submission)
    told = tell(end, root, paths.logs) if end else None
    absent = told is not None and isinstance(end, s.NotSubmitted)
    steps = told.next_steps if told else ()
    queued = isinstance(end, s.Queued)
    return RetrySaid(
        run_dir=root,
        submission=retried.submission,
        state=told.state if told else "planned",
        job_id=end.submitted.job.job_id if isinstance(end, s.Queued | s.StillHeld) else None,
        shards=plan.shards,
        reasons=plan.retry.reasons,
        passed=plan.passed,
        resume=plan.retry.resume,
        excluded=plan.retry.excluded,
        time_limit=plan.retry.time_limit,
        doubt=opened.scheduler.doubt(paths.batch, root) if queued else None,
        exit_code=told.exit_code if told else EX_OK,
        message=told.message if told else "nothing was submitted: --dry-run",
        next_steps=(f"dd-slurm retry {root}",)
        if absent
        else (f"dd-slurm status {root}", *steps[:1])
        if queued
        else steps,
    )


def _print(said: RetrySaid) -> None:
    for reason in said.reasons:
        print(f"retry {reason}")
    for one in said.passed:
        print(f"leave shard {one.shard}: {one.why}")
    print(f"resume: {said.resume}")
    if said.excluded:
        print(f"avoided: {', '.join(said.excluded)}")
    print(said.message, file=sys.stderr if said.exit_code else sys.stdout)
    if said.doubt is not None:
        print(f"warning: as the cluster stands, it can never start: {said.doubt}", file=sys.stderr)
    for line in said.next_steps:
        print(f"next: {line}")


def _tell_progress(state: s.State) -> None:
    line = progress(state)
    if line is not None:
        print(line, file=sys.stderr)


def cancel(folder: str, wait_s: float, as_json: bool) -> int:
    """0 when nothing of the run is in the queue any more."""
    opened = open_run(folder)
    if not is_successful(opened):
        return refuse(opened.failure(), as_json)
    try:
        said = cancel_run(opened.unwrap(), wait_s)
    except KeyboardInterrupt:
        print("stopped; what is left is ended by the same command", file=sys.stderr)
        return INTERRUPTED
    except (OSError, msgspec.MsgspecError) as error:
        return refuse((unreadable(folder, error),), as_json)
    if as_json:
        sys.stdout.write(canonical_json(said).decode())
    else:
        print(said.message, file=sys.stderr if said.exit_code == EX_TEMPFAIL else sys.stdout)
    return said.exit_code
