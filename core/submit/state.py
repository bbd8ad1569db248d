"""The words of a submission: what it can be in, what can happen to it, what is to be done, how it can end."""

from typing import TypeAlias

import msgspec

from core.submit.answer import Answer
from core.submit.records import Absent, Intent, Job, NotAccepted, Receipt, Refused, Submitted
from core.submit.sight import Sight
from core.units import MonotonicMs


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to look and how often to try.

    `quiet_ms` counts from the first look at which the queue could be read: no job of the name for so long means that
    there is none. `give_up_ms` bounds looking at a queue that cannot be read.
    """

    look_every_ms: int = 1_000
    quiet_ms: int = 45_000
    give_up_ms: int = 180_000
    releases: int = 5
    release_every_ms: int = 2_000


class SubmitPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change while a submission goes on."""

    intent: Intent
    patience: Patience = Patience()


# --- how it begins ------------------------------------------------------------------------------------------------


class Fresh(msgspec.Struct, frozen=True, kw_only=True, tag="fresh", tag_field="kind"):
    """This process has just created the intent: it may ask sbatch, and nobody else may."""


class LeftUnclear(msgspec.Struct, frozen=True, kw_only=True, tag="left-unclear", tag_field="kind"):
    """There is an intent of another process and no receipt."""


class Settled(msgspec.Struct, frozen=True, kw_only=True, tag="settled", tag_field="kind"):
    """The receipt stands."""

    receipt: Receipt
    released: bool


Start: TypeAlias = Fresh | LeftUnclear | Settled


# --- states -------------------------------------------------------------------------------------------------------


class Asking(msgspec.Struct, frozen=True, kw_only=True, tag="asking", tag_field="kind"):
    """sbatch runs."""


class Looking(msgspec.Struct, frozen=True, kw_only=True, tag="looking", tag_field="kind"):
    """The answer is unclear. `clear_since` is the first look at which the queue could be read."""

    reason: str
    since: MonotonicMs
    clear_since: MonotonicMs | None


class Recording(msgspec.Struct, frozen=True, kw_only=True, tag="recording", tag_field="kind"):
    """The receipt is being created; whose it is that stands is not known yet."""

    own: Receipt


class Withdrawing(msgspec.Struct, frozen=True, kw_only=True, tag="withdrawing", tag_field="kind"):
    """Another receipt stands; our job, which is held, is cancelled."""

    job: Job
    standing: Receipt


class Releasing(msgspec.Struct, frozen=True, kw_only=True, tag="releasing", tag_field="kind"):
    """The receipt stands and the job may start."""

    submitted: Submitted
    tried: int


class Queued(msgspec.Struct, frozen=True, kw_only=True, tag="queued", tag_field="kind"):
    """The job is Slurm's, and may start."""

    submitted: Submitted


class StillHeld(msgspec.Struct, frozen=True, kw_only=True, tag="still-held", tag_field="kind"):
    """The job is in the queue but could not be released."""

    submitted: Submitted
    reason: str


class StillUnclear(msgspec.Struct, frozen=True, kw_only=True, tag="still-unclear", tag_field="kind"):
    """The queue could not be read for too long."""

    reason: str
    looking: str


class Conflicting(msgspec.Struct, frozen=True, kw_only=True, tag="conflicting", tag_field="kind"):
    """Several jobs have the name of this one; all are held."""

    jobs: tuple[Job, ...]


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True, tag="withdrawn", tag_field="kind"):
    """Another process had settled the submission otherwise. `reason` says why the job could not be cancelled."""

    job: Job
    reason: str | None


class NotSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag="not-submitted", tag_field="kind"):
    """There is no job."""

    receipt: Refused | NotAccepted | Absent


End: TypeAlias = Queued | StillHeld | StillUnclear | Conflicting | Withdrawn | NotSubmitted


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="kind"):
    """Nothing more happens in this process."""

    end: End


State: TypeAlias = Asking | Looking | Recording | Withdrawing | Releasing | Ended


# --- events -------------------------------------------------------------------------------------------------------


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="kind"):
    """sbatch is over."""

    at: MonotonicMs
    answer: Answer


class Looked(msgspec.Struct, frozen=True, kw_only=True, tag="looked", tag_field="kind"):
    """The queue and the accounting have been asked."""

    at: MonotonicMs
    sight: Sight


class Stands(msgspec.Struct, frozen=True, kw_only=True, tag="stands", tag_field="kind"):
    """This receipt is on disk for good, ours or another's."""

    at: MonotonicMs
    receipt: Receipt


class Released(msgspec.Struct, frozen=True, kw_only=True, tag="released", tag_field="kind"):
    """The job was let go, or `reason` why not."""

    at: MonotonicMs
    reason: str | None


class Cancelled(msgspec.Struct, frozen=True, kw_only=True, tag="cancelled", tag_field="kind"):
    """The job was cancelled, or `reason` why not."""

    at: MonotonicMs
    reason: str | None


class TimerFired(msgspec.Struct, frozen=True, kw_only=True, tag="timer-fired", tag_field="kind"):
    """The time of the last `WakeAt` has come."""

    at: MonotonicMs


Event: TypeAlias = Answered | Looked | Stands | Released | Cancelled | TimerFired


# --- effects ------------------------------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag="ask", tag_field="kind"):
    """Call sbatch, held. Comes back as `Answered`."""


class Look(msgspec.Struct, frozen=True, kw_only=True, tag="look", tag_field="kind"):
    """Ask for jobs of the name. Comes back as `Looked`."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag="record", tag_field="kind"):
    """Create the receipt unless there is one. Comes back as `Stands`, with the one that is there."""

    receipt: Receipt


class Release(msgspec.Struct, frozen=True, kw_only=True, tag="release", tag_field="kind"):
    """Let the job go. Comes back as `Released`."""

    job: Job


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel", tag_field="kind"):
    """Cancel the job. Comes back as `Cancelled`."""

    job: Job


class MarkReleased(msgspec.Struct, frozen=True, kw_only=True, tag="mark-released", tag_field="kind"):
    """Write down that the job has been let go."""

    job: Job


class WakeAt(msgspec.Struct, frozen=True, kw_only=True, tag="wake-at", tag_field="kind"):
    """Wait until then. Comes back as `TimerFired`."""

    at: MonotonicMs


Effect: TypeAlias = Ask | Look | Record | Release | Cancel | MarkReleased | WakeAt
