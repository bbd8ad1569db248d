"""What other programs call: plan, submit, observe, retry, cancel and merge, as `dd-slurm` does, but as values.

Nothing here prints, asks or ends the process. Every function gives a `Result`: what was asked for, or all the problems
that stand against it, each a struct with a code that does not change (`core.problem`; `core.report` has the words).
Waiting is bounded: by `patience` for submissions, by `wait_s` for a cancellation.
"""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.outcome import Outcome, refuse
from core.plan.model import RunPlan
from core.problem import At, Unwritable
from core.record.cancel import CancelSaid
from core.record.merge import Manifest
from core.record.retry import RetryAsked
from core.record.table import StatusSaid
from core.submit.records import Resume
from core.submit.state import Patience
from shell.authored.authoring import read_and_plan
from shell.commands.retry import RetrySaid, retry_said
from shell.commands.status import said_of
from shell.commands.submit import SubmissionSaid, submission_said
from shell.merge.merge import merge_run
from shell.operate.cancel import WAIT_S, cancel_run
from shell.operate.observe import observe as look
from shell.operate.opened import Opened, open_files, open_run, unreadable
from shell.operate.retry import retry_run
from shell.scheduler import Scheduler
from shell.submission.checks import submission_problems
from shell.submission.runs import create_run
from shell.submission.submit import Submitter

T = TypeVar("T")


def plan(run_file: str, profile_file: str | None = None, cluster: str | None = None) -> Outcome[RunPlan]:
    """What would be asked of Slurm. Changes nothing."""
    return read_and_plan(run_file, profile_file, cluster, None).map(lambda authored: authored.plan)


def submit(
    run_file: str, profile_file: str | None = None, cluster: str | None = None, patience: Patience | None = None
) -> Outcome[SubmissionSaid]:
    """Make a run and submit it. `state` of the answer says how that ended; `run_dir` names the run from now on."""
    planned = read_and_plan(run_file, profile_file, cluster, None)
    if not is_successful(planned):
        return refuse(*planned.failure())
    authored = planned.unwrap()
    problems = tuple(submission_problems(authored, Scheduler(authored.plan.site.slurm_bin), os.environ))
    if problems:
        return refuse(*problems)
    created = create_run(authored, None)
    if not is_successful(created):
        return refuse(*created.failure())
    return take_up(created.unwrap()[1].root, patience)


def take_up(run_dir: str, patience: Patience | None = None) -> Outcome[SubmissionSaid]:
    """Settle the last submission: find a job whose answer was lost, release one that is held, or submit anew."""

    def work(opened: Opened) -> Outcome[SubmissionSaid]:
        root, scheduler = opened.run.root, opened.scheduler
        ended = Submitter(root, scheduler, patience).go_on()
        return ended.map(lambda found: submission_said(root, scheduler, *found))

    return _on_run(open_run(run_dir), work)


def observe(run_dir: str) -> Outcome[StatusSaid]:
    """Where every shard stands, why, and what to do next. One look; call it again for another."""
    return _on_run(
        open_run(run_dir),
        lambda opened: Success(said_of(opened, look(opened.run.root, opened.plan, opened.scheduler))),
    )


def retry(
    run_dir: str,
    shards: Sequence[int] | None = None,
    resume: Resume | None = None,
    time_limit: str | None = None,
    dry_run: bool = False,
    patience: Patience | None = None,
) -> Outcome[RetrySaid]:
    """Give the shards that need it, or these, to one new job."""
    asked = RetryAsked(shards=None if shards is None else tuple(shards), resume=resume, time_limit=time_limit)
    return _on_run(
        open_run(run_dir),
        lambda opened: retry_run(opened, asked, dry_run, patience).map(lambda retried: retry_said(opened, retried)),
    )


def cancel(run_dir: str, wait_s: float = WAIT_S) -> Outcome[CancelSaid]:
    """End all jobs of a run, and wait until they are gone; `left` says which are not."""
    return _on_run(open_run(run_dir), lambda opened: Success(cancel_run(opened, wait_s)))


def merge(run_dir: str, output: str, partial: bool = False) -> Outcome[Manifest]:
    """Write the results of all shards as one dataset. Needs nothing of Slurm."""
    return _on_run(open_files(run_dir), lambda opened: merge_run(opened, output, partial))


def _on_run(opened: Outcome[Opened], work: Callable[[Opened], Outcome[T]]) -> Outcome[T]:
    """What the world does to files meanwhile is a problem too."""
    if not is_successful(opened):
        return refuse(*opened.failure())
    root = opened.unwrap().run.root
    try:
        return work(opened.unwrap())
    except msgspec.MsgspecError as error:
        return refuse(unreadable(root, error))
    except OSError as error:
        reason = error.strerror or str(error)
        return refuse(Unwritable(at=At(source=root), path=str(error.filename or root), reason=reason))
