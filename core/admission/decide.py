"""Where a request goes, or how it is sent back. There is no queue: a request is forwarded or answered at once.

Rule 1: the least loaded backend gets it: requests in flight plus those that wait there; equals take turns. Among many,
the least loaded of the first few that take it: a choice shall not cost more than a request, and is hardly worse.
Rule 2: when some are in rotation and none takes more, the answer is 429 with Retry-After. Data Designer slows down on
429 and on nothing else, and keeps the record for as long as it takes.
Rule 3: when none is alive, the answer is first 503, later 429. Data Designer's transport repeats a 503 after the
Retry-After, three times, and leaves its own concurrency alone: a restart of up to 20 seconds costs waiting and nothing
else. After that a 503 would cost records (they are given up after a few rounds), whereas a record that got a 429 is
tried for ever. So from `Policy.patience_ms` on the answer is 429; Retry-After (10 s) is long enough that three repeats
of a 503 reach beyond the patience, and that a restart of 30 s costs the client one or two cuts of its concurrency.
Seen with Data Designer 0.9.7, 16 requests at a time, its only server away for 30 s or for 90 s: all 240 records came.
"""

from collections.abc import Sequence

import msgspec

from core.admission.decision import UNAUTHORIZED, Decision
from core.admission.rotation import Rotation
from core.admission.state import Admission, standing
from core.units import MonotonicMs

FEW = 16
"""So many are looked at for one choice, from the one on whose turn it is."""
_IN_ROTATION = ("alive", "full", "probation")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a request: whether its client may ask, and which backends have had it already."""

    authorized: bool
    tried: tuple[int, ...] = ()


def decide(rotation: Rotation, request: Request, in_flight: Sequence[int], turn: int) -> Decision:
    """Forward to the least loaded backend that takes more, or reject.

    `in_flight` holds the requests of ours that each backend has; `turn` is where the search begins: behind the place of
    the last choice, so that equals take turns.
    """
    if not request.authorized:
        return UNAUTHORIZED
    if rotation.is_plain and not request.tried and len(in_flight) <= FEW:
        return rotation.places[_least(in_flight, turn)]
    place = _least_loaded(rotation, request.tried, in_flight, turn)
    return rotation.otherwise if place is None else rotation.places[place]


def is_serving(state: Admission, now: MonotonicMs) -> bool:
    """What the endpoint's own health check says."""
    return not state.draining and any(standing(state.policy, b, 0, now) in _IN_ROTATION for b in state.backends)


def _least(in_flight: Sequence[int], turn: int) -> int:
    """The first place of the smallest number, from the turn on; two searches in C instead of a loop."""
    least = min(in_flight)
    try:
        return in_flight.index(least, turn)
    except ValueError:
        return in_flight.index(least)


def _least_loaded(rotation: Rotation, tried: tuple[int, ...], in_flight: Sequence[int], turn: int) -> int | None:
    best, least, seen = None, 0, 0
    count = len(rotation.places)
    for offset in range(count):
        place = (turn + offset) % count
        load = in_flight[place]
        if load > rotation.limits[place] or rotation.places[place].serial in tried:
            continue
        load += rotation.waiting[place]
        if best is None or load < least:
            best, least = place, load
        seen += 1
        if seen == FEW:
            break
    return best
