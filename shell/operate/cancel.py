"""Ending all jobs of a run: by their ids, as often as it takes, and no longer than was asked for."""

import time
from collections.abc import Iterator

import msgspec

from core.record.cancel import CancelSaid, cancel_said, living_jobs
from core.record.rows import QueueUnread
from core.record.sightings import SubmissionSeen
from core.submit.records import Job
from core.submit.sight import Seen
from shell.operate.observe import observe
from shell.operate.opened import Opened
from shell.submission.submissions import take_up

WAIT_S = 180.0
"""A controller has the grace of its servers and KillWait of Slurm to end in order."""
LOOK_EVERY_S = 2.0


class _Round(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs were there, which of them Slurm has taken the word for, and what it said against the others."""

    jobs: tuple[Job, ...]
    told: tuple[Job, ...]
    failed: tuple[str, ...]
    unclear: tuple[int, ...]


def cancel_run(opened: Opened, wait_s: float = WAIT_S) -> CancelSaid:
    """Cancel, and wait until nothing is left. Jobs that go on after others may come up meanwhile: every round looks."""
    until = time.monotonic() + wait_s
    told: dict[Job, None] = {}
    while True:
        tried = _round(opened, tuple(told))
        told |= dict.fromkeys(tried.told)
        if not tried.jobs or time.monotonic() >= until:
            return cancel_said(opened.run.root, tuple(told), tried.jobs, tried.failed, tried.unclear)
        pause(min(LOOK_EVERY_S, max(0.0, until - time.monotonic())))


def pause(seconds: float) -> None:
    """Between two rounds."""
    time.sleep(seconds)


def _round(opened: Opened, before: tuple[Job, ...]) -> _Round:
    """A job is told once: a second TERM would cut its orderly end short."""
    seen = observe(opened.run.root, opened.plan, opened.scheduler)
    unclear = tuple(one for one in seen.submissions if one.state == "unclear")
    jobs = (*living_jobs(seen), *_found_by_name(opened, unclear))
    answers = {job: opened.scheduler.cancel(job) for job in jobs if job not in before}
    unread = (seen.queue.reason,) if isinstance(seen.queue, QueueUnread) else ()
    return _Round(
        jobs=jobs,
        told=tuple(job for job, answer in answers.items() if answer is None),
        failed=(*unread, *(answer for answer in answers.values() if answer is not None)),
        unclear=tuple(one.number for one in unclear),
    )


def _found_by_name(opened: Opened, unclear: tuple[SubmissionSeen, ...]) -> Iterator[Job]:
    """Jobs of submissions that are not settled. Their names are unique to them, and they are held: nothing ran."""
    for one in unclear:
        intent, _ = take_up(opened.run.root, one.number)
        sight = opened.scheduler.look(intent.job_name, intent.user_id, intent.created_unix_ms)
        rows = sight.rows if isinstance(sight, Seen) else ()
        yield from dict.fromkeys(row.job for row in rows if row.state in ("PENDING", "RUNNING", "COMPLETING"))
