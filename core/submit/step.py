"""The policy of submission. sbatch is asked at most once for an intent, and a job starts only after its receipt stands.

`begin` and `step` are total: an event that does not belong to the state changes nothing.
"""

from typing import TypeAlias, assert_never

from core.submit import state as s
from core.submit.answer import Unclear
from core.submit.records import Absent, Receipt, Submitted
from core.submit.resolve import Adopt, Conflict, Lost, Wait, resolve
from core.submit.sight import Blind, Seen
from core.units import MonotonicMs

Move: TypeAlias = tuple[s.State, tuple[s.Effect, ...]]

LEFT_BEHIND = "an earlier dd-slurm ended before it had an answer"


def begin(start: s.Start, at: MonotonicMs) -> Move:
    """Take up a submission where it stands."""
    match start:
        case s.Fresh():
            return s.Asking(), (s.Ask(),)
        case s.LeftUnclear():
            return s.Looking(reason=LEFT_BEHIND, since=at, clear_since=None), (s.Look(),)
        case s.Settled(receipt=receipt, released=released):
            return _settled(receipt, released)
        case _:
            assert_never(start)


def step(plan: s.SubmitPlan, state: s.State, event: s.Event) -> Move:
    """Take one event."""
    match state, event:
        case s.Asking(), s.Answered(at=at, answer=Unclear(reason=reason)):
            return s.Looking(reason=reason, since=at, clear_since=None), (s.Look(),)
        case s.Asking(), s.Answered(answer=answer) if not isinstance(answer, Unclear):
            return _record(answer)
        case s.Looking(), s.Looked():
            return _looked(plan, state, event)
        case s.Looking(), s.TimerFired():
            return state, (s.Look(),)
        case s.Recording(own=own), s.Stands(receipt=standing):
            return _stands(own, standing)
        case s.Withdrawing(job=job, standing=standing), s.Cancelled(reason=reason):
            return _withdrawn(s.Withdrawn(job=job, reason=reason), standing)
        case s.Releasing(), s.Released():
            return _released(plan, state, event)
        case s.Releasing(submitted=submitted), s.TimerFired():
            return state, (s.Release(job=submitted.job),)
        case _:
            return state, ()


def _settled(receipt: Receipt, released: bool) -> Move:
    if not isinstance(receipt, Submitted):
        return s.Ended(end=s.NotSubmitted(receipt=receipt)), ()
    if released:
        return s.Ended(end=s.Queued(submitted=receipt)), ()
    return s.Releasing(submitted=receipt, tried=0), (s.Release(job=receipt.job),)


def _record(receipt: Receipt) -> Move:
    return s.Recording(own=receipt), (s.Record(receipt=receipt),)


def _looked(plan: s.SubmitPlan, state: s.Looking, event: s.Looked) -> Move:
    clear_since = state.clear_since
    if clear_since is None and isinstance(event.sight, Seen):
        clear_since = event.at
    quiet = clear_since is not None and event.at - clear_since >= plan.patience.quiet_ms
    match resolve(event.sight, plan.intent.indices, quiet):
        case Adopt(job=job):
            return _record(Submitted(job=job, how="found"))
        case Conflict(jobs=jobs):
            return s.Ended(end=s.Conflicting(jobs=jobs)), ()
        case Lost():
            return _record(Absent(reason=state.reason))
        case Wait(reason=looking):
            if isinstance(event.sight, Blind) and event.at - state.since >= plan.patience.give_up_ms:
                return s.Ended(end=s.StillUnclear(reason=state.reason, looking=looking)), ()
            wake = s.WakeAt(at=MonotonicMs(event.at + plan.patience.look_every_ms))
            return s.Looking(reason=state.reason, since=state.since, clear_since=clear_since), (wake,)


def _stands(own: Receipt, standing: Receipt) -> Move:
    """Ours or another's. A job of ours that is not the one that stands must never start."""
    if isinstance(own, Submitted) and not (isinstance(standing, Submitted) and standing.job.job_id == own.job.job_id):
        return s.Withdrawing(job=own.job, standing=standing), (s.Cancel(job=own.job),)
    return _settled(standing, released=False)


def _withdrawn(end: s.Withdrawn, standing: Receipt) -> Move:
    if isinstance(standing, Submitted):
        return _settled(standing, released=False)
    return s.Ended(end=end), ()


def _released(plan: s.SubmitPlan, state: s.Releasing, event: s.Released) -> Move:
    submitted, tried = state.submitted, state.tried + 1
    if event.reason is None:
        return s.Ended(end=s.Queued(submitted=submitted)), (s.MarkReleased(job=submitted.job),)
    if tried >= plan.patience.releases:
        return s.Ended(end=s.StillHeld(submitted=submitted, reason=event.reason)), ()
    wake = s.WakeAt(at=MonotonicMs(event.at + plan.patience.release_every_ms))
    return s.Releasing(submitted=submitted, tried=tried), (wake,)
