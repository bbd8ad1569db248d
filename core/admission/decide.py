"""Where a request goes, or how it is sent back. There is no queue: a request is forwarded or answered at once.

Rule 1: the least loaded backend gets it: requests in flight plus those that wait there; equals take turns.
Rule 2: when some are in rotation and none takes more, the answer is 429 with Retry-After. Data Designer slows down on
429 and on nothing else, and keeps the record for as long as it takes.
Rule 3: when none is alive, the answer is first 503, later 429. Data Designer's transport repeats a 503 after the
Retry-After, three times, and leaves its own concurrency alone: a restart of up to 20 seconds costs waiting and nothing
else. After that a 503 would cost records (they are given up after a few rounds), whereas a record that got a 429 is
tried for ever. So from `Policy.patience_ms` on the answer is 429; Retry-After (10 s) is long enough that three repeats
of a 503 reach beyond the patience, and that a restart of 30 s costs the client one or two cuts of its concurrency.
Seen with Data Designer 0.9.7, 16 requests at a time, its only server away for 30 s or for 90 s: all 240 records came.
"""

from typing import Literal, TypeAlias

import msgspec

from core.admission.state import Admission, Backend, fresh_load, standing, takes_now
from core.units import MonotonicMs

Reason: TypeAlias = Literal["unauthorized", "draining", "full", "down"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What matters of a request: whether its client may ask, and which backends have had it already."""

    authorized: bool
    tried: tuple[int, ...] = ()


class Forward(msgspec.Struct, frozen=True, kw_only=True, tag="forward", tag_field="kind"):
    """Send it there."""

    serial: int


class Reject(msgspec.Struct, frozen=True, kw_only=True, tag="reject", tag_field="kind"):
    """Answer it."""

    status: int
    retry_after_seconds: int | None
    reason: Reason


Decision: TypeAlias = Forward | Reject

UNAUTHORIZED = Reject(status=401, retry_after_seconds=None, reason="unauthorized")
DRAINING = Reject(status=503, retry_after_seconds=1, reason="draining")
_IN_ROTATION = ("alive", "full", "probation")


def decide(state: Admission, request: Request, now: MonotonicMs) -> Decision:
    """Forward to the least loaded backend that takes more, or reject."""
    if not request.authorized:
        return UNAUTHORIZED
    if state.draining:
        return DRAINING
    best = _least_loaded(state, request.tried, now)
    if best is not None:
        return Forward(serial=best.serial)
    return _sent_back(state, now)


def is_serving(state: Admission, now: MonotonicMs) -> bool:
    """What the endpoint's own health check says."""
    return not state.draining and any(standing(state.policy, b, now) in _IN_ROTATION for b in state.backends)


def _least_loaded(state: Admission, tried: tuple[int, ...], now: MonotonicMs) -> Backend | None:
    policy, backends = state.policy, state.backends
    best: Backend | None = None
    least = 0
    for offset in range(len(backends)):
        backend = backends[(state.turn + offset) % len(backends)]
        load = backend.in_flight
        if (best is not None and load >= least) or backend.serial in tried or not takes_now(policy, backend, now):
            continue
        if backend.load is not None and (fresh := fresh_load(policy, backend, now)) is not None:
            load += fresh.waiting
        if best is None or load < least:
            best, least = backend, load
    return best


def _sent_back(state: Admission, now: MonotonicMs) -> Reject:
    policy = state.policy
    if any(standing(policy, backend, now) in ("alive", "full") for backend in state.backends):
        return Reject(status=429, retry_after_seconds=policy.retry_after_seconds, reason="full")
    since = now if state.down_since is None else state.down_since
    status = 503 if now - since < policy.patience_ms else 429
    return Reject(status=status, retry_after_seconds=policy.down_retry_seconds, reason="down")
