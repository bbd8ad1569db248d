"""All that a choice depends on, but for the requests in flight: a few small numbers that hold for a while.

A choice is made for every request, whereas the state changes seldom. So what follows from the state is worked out once
per change, and not once per request.
"""

import msgspec

from core.admission.decision import DRAINING, Forward, Reject
from core.admission.state import Admission, Backend, Fit, Full, Load, Out, Policy, fresh_load, standing
from core.units import MonotonicMs

NONE, ANY = -1, 1 << 62
_NEVER = MonotonicMs(1 << 62)


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    """Of one state, from one point in time until another. The tuples are in the order of the state's backends."""

    places: tuple[Forward, ...]
    """Empty when the endpoint is draining."""
    limits: tuple[int, ...]
    """A backend takes one more while it has at most so many requests of ours; `NONE`: it takes none."""
    waiting: tuple[int, ...]
    """How many wait there, as sampled."""
    is_plain: bool
    """All take any number and none waits anywhere: the one with the least in flight is the least loaded."""
    otherwise: Reject
    """What is said when none takes the request."""
    until: MonotonicMs
    """From then on, mere time has changed something."""


def rotation_of(state: Admission, now: MonotonicMs) -> Rotation:
    """What holds now."""
    backends = () if state.draining else state.backends
    loads = tuple(fresh_load(state.policy, backend, now) for backend in backends)
    limits = tuple(_limit(state.policy, backend, load, now) for backend, load in zip(backends, loads, strict=True))
    waiting = tuple(0 if load is None else load.waiting for load in loads)
    return Rotation(
        places=tuple(Forward(place=place, serial=backend.serial) for place, backend in enumerate(backends)),
        limits=limits,
        waiting=waiting,
        is_plain=set(limits) == {ANY} and not any(waiting),
        otherwise=DRAINING if state.draining else _sent_back(state, now),
        until=min((point for point in _turning_points(state) if point > now), default=_NEVER),
    )


def unfit(state: Admission) -> tuple[int, ...]:
    """Serials of the backends to which it makes a difference how a request goes: for a fit one, only failures do."""
    return tuple(backend.serial for backend in state.backends if not isinstance(backend.health, Fit))


def _limit(policy: Policy, backend: Backend, load: Load | None, now: MonotonicMs) -> int:
    """How many requests in flight still let it take one more: `core.admission.state.standing`, solved for them."""
    health = backend.health
    if isinstance(health, Out):
        return ANY if now >= health.until else NONE
    if (load is not None and load.verdict == "stalled") or (isinstance(health, Full) and now < health.until):
        return NONE
    if load is None or policy.max_waiting is None or load.waiting == 0:
        return ANY
    return max(policy.max_waiting - load.waiting + load.in_flight, NONE)


def _sent_back(state: Admission, now: MonotonicMs) -> Reject:
    """Rules 2 and 3 of `core.admission.decide`."""
    policy = state.policy
    if any(standing(policy, backend, 0, now) in ("alive", "full") for backend in state.backends):
        return Reject(status=429, retry_after_seconds=policy.retry_after_seconds, reason="full")
    since = now if state.down_since is None else state.down_since
    status = 503 if now - since < policy.patience_ms else 429
    return Reject(status=status, retry_after_seconds=policy.down_retry_seconds, reason="down")


def _turning_points(state: Admission) -> list[MonotonicMs]:
    points = [b.health.until for b in state.backends if not isinstance(b.health, Fit)]
    points += [MonotonicMs(b.load.at + state.policy.stale_ms + 1) for b in state.backends if b.load is not None]
    if state.down_since is not None:
        points.append(MonotonicMs(state.down_since + state.policy.patience_ms))
    return points
