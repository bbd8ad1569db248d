"""Submission: carries out what `core.submit` decides, one effect after the other, and gives how it ended."""

import os
import time
from collections.abc import Callable
from typing import Protocol, assert_never

from returns.pipeline import is_successful
from returns.result import Success

from core.layout import RunPaths, SubmissionPaths
from core.outcome import Outcome, refuse
from core.submit import state as s
from core.submit.answer import Answer
from core.submit.records import Absent, Intent, Job, NotAccepted, Refused, Submitted
from core.submit.request import ALL, Wanted
from core.submit.sight import Seen, Sight
from core.submit.step import begin, step
from core.units import MonotonicMs
from shell.attempt.interpreter import monotonic_ms
from shell.submission.submissions import latest_number, mark_released, new_intent, read_receipt, record_receipt, take_up

Watch = Callable[[s.State], None]
"""Called with every new state, for people who wait."""


class Slurm(Protocol):
    """What submission needs of a cluster."""

    def submit_held(self, script: str, folder: str) -> Answer:
        """Submit a batch script, held."""

    def look(self, job_name: str, user_id: int, since_unix_ms: int) -> Sight:
        """Where jobs of this name show up."""

    def release(self, job: Job) -> str | None:
        """Let a job go, or say why not."""

    def cancel(self, job: Job) -> str | None:
        """Cancel a job, or say why not."""


class Submitter:
    """Submissions of one run folder to one cluster."""

    def __init__(self, root: str, slurm: Slurm, patience: s.Patience | None = None, watch: Watch | None = None) -> None:
        self._root = root
        self._run = RunPaths(root=root)
        self._slurm = slurm
        self._patience = patience or s.Patience()
        self._watch = watch or (lambda state: None)

    def submit(self, number: int, wanted: Wanted = ALL) -> Outcome[s.End]:
        """Submission `number`: begun, or taken up when it has been begun before. Errors: see `new_intent`."""
        return new_intent(self._root, number, wanted).map(lambda found: self._carry(*found))

    def submit_own(self, number: int, wanted: Wanted) -> Outcome[s.End | None]:
        """Submission `number`, or None when somebody else has taken the number; nothing is done then."""
        return new_intent(self._root, number, wanted).map(
            lambda found: self._carry(*found) if isinstance(found[1], s.Fresh) else None
        )

    def settle(self, number: int) -> s.End:
        """Bring a submission that was begun before to its end. Never asks sbatch."""
        return self._carry(*take_up(self._root, number))

    def go_on(self) -> Outcome[tuple[int, s.End]]:
        """Settle the last submission; make the next one only when it is certain that Slurm never had a job of the run.

        Once it had one, what is missing is for a retry to find out: all shards again would be too many.
        """
        number = latest_number(self._run)
        if number is not None:
            self._cancel_late_ones(number)
            end = self.settle(number)
            if not isinstance(end, s.NotSubmitted) or self._had_a_job(number):
                return Success((number, end))
        following = 1 if number is None else number + 1
        submitted = self.submit(following)
        if not is_successful(submitted):
            return refuse(*submitted.failure())
        return Success((following, submitted.unwrap()))

    def _had_a_job(self, last: int) -> bool:
        receipts = (read_receipt(self._run.submission(number)) for number in range(1, last))
        return any(isinstance(receipt, Submitted) for receipt in receipts)

    def _cancel_late_ones(self, last: int) -> None:
        """Jobs of submissions that came to nothing, should they have come up after all. They are held: nothing ran."""
        for number in range(1, last + 1):
            if isinstance(read_receipt(self._run.submission(number)), Refused | NotAccepted | Absent):
                intent, _ = take_up(self._root, number)
                sight = self._look(intent)
                rows = sight.rows if isinstance(sight, Seen) else ()
                for job in dict.fromkeys(row.job for row in rows if not row.state.startswith("CANCELLED")):
                    self._slurm.cancel(job)

    def _look(self, intent: Intent) -> Sight:
        return self._slurm.look(intent.job_name, intent.user_id, intent.created_unix_ms)

    def _carry(self, intent: Intent, start: s.Start) -> s.End:
        plan = s.SubmitPlan(intent=intent, patience=self._patience)
        paths = self._run.submission(intent.number)
        state, effects = begin(start, monotonic_ms())
        seen: s.State | None = None
        while True:
            if state != seen:
                self._watch(state)
            seen = state
            events = [event for effect in effects if (event := self._carry_out(intent, paths, effect)) is not None]
            if isinstance(state, s.Ended):
                return state.end
            (event,) = events
            state, effects = step(plan, state, event)

    def _carry_out(self, intent: Intent, paths: SubmissionPaths, effect: s.Effect) -> s.Event | None:
        """Do it, and say what came of it: exactly one event for each effect but `MarkReleased`, which is the last."""
        match effect:
            case s.Ask():
                answer = self._slurm.submit_held(paths.batch, self._root)
                return s.Answered(at=monotonic_ms(), answer=answer)
            case s.Look():
                sight = self._look(intent)
                return s.Looked(at=monotonic_ms(), sight=sight)
            case s.Record(receipt=receipt):
                standing = record_receipt(paths, receipt)
                return s.Stands(at=monotonic_ms(), receipt=standing)
            case s.Release(job=job):
                reason = self._slurm.release(job)
                return s.Released(at=monotonic_ms(), reason=reason)
            case s.Cancel(job=job):
                reason = self._slurm.cancel(job)
                return s.Cancelled(at=monotonic_ms(), reason=reason)
            case s.MarkReleased(job=job):
                mark_released(paths, job)
                return None
            case s.WakeAt(at=at):
                _sleep_until(at)
                return s.TimerFired(at=monotonic_ms())
            case _:
                assert_never(effect)


def _sleep_until(at: MonotonicMs) -> None:
    time.sleep(max(0, at - monotonic_ms()) / 1000)


def is_run_folder(path: str) -> bool:
    """Whether this is a folder that `dd-slurm submit` made."""
    return os.path.isfile(RunPaths(root=path).run) and os.path.isfile(RunPaths(root=path).plan)
