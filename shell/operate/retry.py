"""Giving shards to a new job, decided on one look, and made only if nobody has submitted anything since that look."""

import os
from typing import TypeAlias

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.outcome import Outcome, refuse
from core.problem import At, PlanChanged, Problem
from core.record.reconcile import reconcile
from core.record.retry import RetryAsked, RetryPlan, plan_retry
from core.submit import state as s
from core.submit.request import Wanted
from core.submit.secrets import unset_secrets
from shell.operate.observe import observe
from shell.operate.opened import Opened
from shell.submission.submissions import latest_number, plan_digest, take_up
from shell.submission.submit import Submitter, Watch

TRIES = 5
"""Others, such as jobs that go on after a time limit, may submit between a look and what follows from it."""


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned, and how its submission ended; `end` is None where it was only to be planned."""

    plan: RetryPlan
    submission: int
    end: s.End | None


Retrying: TypeAlias = Outcome[Retried]


def retry_run(
    opened: Opened, asked: RetryAsked, dry_run: bool, patience: s.Patience | None = None, watch: Watch | None = None
) -> Retrying:
    """Errors: those of `plan_retry`, `PlanChanged`, `SecretNotSet`, `Malformed` for what a directive cannot say."""
    submitter = Submitter(opened.run.root, opened.scheduler, patience, watch)
    for _ in range(TRIES):
        number = 1 + (latest_number(opened.run) or 0)
        seen = observe(opened.run.root, opened.plan, opened.scheduler)
        planned = plan_retry(opened.plan, seen, reconcile(seen), asked, opened.run.root)
        if not is_successful(planned):
            return refuse(*planned.failure())
        problems = _changed(opened, number) or tuple(unset_secrets(opened.plan, os.environ))
        if problems:
            return refuse(*problems)
        plan = planned.unwrap()
        if dry_run:
            return Success(Retried(plan=plan, submission=number, end=None))
        ended = submitter.submit_own(number, Wanted(indices=plan.shards, retry=plan.retry))
        if not is_successful(ended):
            return refuse(*ended.failure())
        end = ended.unwrap()
        if end is not None:
            return Success(Retried(plan=plan, submission=number, end=end))
    raise RuntimeError(f"{opened.run.root}: others submitted {TRIES} times while this was about to")


def _changed(opened: Opened, following: int) -> tuple[Problem, ...]:
    """All submissions of a run carry out one plan."""
    now = plan_digest(opened.run)
    for number in range(1, following):
        if os.path.exists(opened.run.submission(number).intent):
            intent, _ = take_up(opened.run.root, number)
            if intent.plan_sha256 != now:
                return (PlanChanged(at=At(source=opened.run.root), number=number),)
    return ()
