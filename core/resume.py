"""Whether an attempt goes on with what an earlier one has left, and whether another job shall go on after it."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from core.plan.model import RunPlan

MOST_FOLLOW_UPS = 20
"""Jobs that one shard may be given after the first, so that a run that gets nowhere ends."""

Mode = Literal["always", "if_possible"]
Asked = Literal["never", "always", "if_possible"]


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt at the same shard that is over. `state` is RUNNING when it was killed. `records` have been made."""

    number: int
    state: str
    out_of_time: bool
    has_output: bool
    records: int


class TakeOver(msgspec.Struct, frozen=True, kw_only=True):
    """Go on in the output of this attempt."""

    number: int
    mode: Mode


def taken_over(plan: RunPlan, earlier: Sequence[Earlier], retried: Asked | None = None) -> TakeOver | None:
    """The newest output that may be gone on with; None to begin anew.

    ``invocation.resume`` decides, or what a retry asked for in its place: `retried`. When nobody asked and it says
    never, ``on_time_limit.resume: auto`` still goes on after attempts that were interrupted or killed: nothing was
    wrong with what they had made.
    """
    left = max((one for one in earlier if one.has_output), key=lambda one: one.number, default=None)
    if left is None or left.state == "COMPLETED":
        return None
    asked = plan.invocation.resume if retried is None else retried
    if asked != "never":
        return TakeOver(number=left.number, mode=asked)
    if retried is not None:
        return None
    interrupted = left.state in ("INTERRUPTED", "RUNNING")
    return TakeOver(number=left.number, mode="if_possible") if interrupted and _automatic(plan) else None


def _automatic(plan: RunPlan) -> bool:
    return plan.on_time_limit.resume == "auto"


def follow_up(plan: RunPlan, attempts: Sequence[Earlier]) -> int | str | None:
    """After an attempt, the last of `attempts`, that ran out of time: which follow-up of the shard comes now, counted
    from 1; a text that says why none does; None when nobody asked for one.
    """
    if not _automatic(plan):
        return None
    last = attempts[-1]
    before = max((one.records for one in attempts[:-1]), default=0)
    if last.records <= before:
        return f"no record was made within the time limit (still {before}): no further job is submitted"
    number = sum(one.out_of_time for one in attempts)
    if number > MOST_FOLLOW_UPS:
        return f"{MOST_FOLLOW_UPS} jobs have gone on already: no further one is submitted"
    return number
