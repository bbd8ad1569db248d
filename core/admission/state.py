"""What the endpoint knows of its backends, and how it sees each of them at a point in time.

A backend is *full* when it said so, or when more requests wait there than the policy allows; *out* when a connection
was refused or broken, or its engine is dead; *stalled* when the sampler says so. Figures of a sampler are believed
while they are fresh; without fresh figures admission fails open: requests in flight alone decide.
"""

from typing import TypeAlias

import msgspec

from core.endpoint_spec import LoadVerdict, Standing
from core.units import MonotonicMs


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What may be tuned."""

    max_waiting: int | None
    retry_after_seconds: int
    stale_ms: int = 10_000
    """Older figures are not believed."""
    first_penalty_ms: int = 250
    longest_penalty_ms: int = 10_000
    forget_ms: int = 60_000
    """A backend that was well for this long starts again with the first penalty."""
    trial_ms: int = 1_000
    """A trial that has not failed by then is passed: a refused connection or a dead engine is told much faster."""
    patience_ms: int = 20_000
    """See `core.admission.decide`: after this long without any backend the answer changes from 503 to 429."""
    down_retry_seconds: int = 10


class Fit(msgspec.Struct, frozen=True, kw_only=True, tag="fit", tag_field="kind"):
    """Takes requests."""


class Full(msgspec.Struct, frozen=True, kw_only=True, tag="full", tag_field="kind"):
    """Turned a request away: takes none until then, or until one of its requests has ended."""

    until: MonotonicMs


class Out(msgspec.Struct, frozen=True, kw_only=True, tag="out", tag_field="kind"):
    """Out of rotation. From `until` on one request may try it; if it has not failed by the next `until`, all may."""

    until: MonotonicMs
    reason: str
    on_trial: bool


Health: TypeAlias = Fit | Full | Out
FIT = Fit()


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One sample. `in_flight` is how many of our requests the backend had at that moment."""

    waiting: int
    running: int
    verdict: LoadVerdict
    in_flight: int
    at: MonotonicMs


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """One server. `serial` is never used twice, so that news of a server that is gone cannot meet its successor."""

    serial: int
    id: str
    host: str
    port: int
    health: Health = FIT
    strikes: int = 0
    """Failures in a row, counting trials; see `Policy.forget_ms`."""
    struck_at: MonotonicMs = MonotonicMs(0)
    load: Load | None = None


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state. How many requests are in flight is no part of it: that is a fact, like the time."""

    policy: Policy
    backends: tuple[Backend, ...] = ()
    next_serial: int = 1
    draining: bool = False
    down_since: MonotonicMs | None = None
    """Since when no backend is alive or full; None while one is."""
    revision: int = 0
    """Grows whenever a backend may be seen in another way."""


def penalty_ms(policy: Policy, strikes: int) -> int:
    """How long a backend stays out after so many failures: doubles, bounded."""
    return int(min(policy.first_penalty_ms * 2 ** min(max(strikes, 1) - 1, 30), policy.longest_penalty_ms))


def fresh_load(policy: Policy, backend: Backend, now: MonotonicMs) -> Load | None:
    """The sample, unless nobody could read it or it is too old."""
    load = backend.load
    if load is None or load.verdict == "unavailable" or now - load.at > policy.stale_ms:
        return None
    return load


def waiting_now(load: Load, in_flight: int) -> int:
    """How many wait by now: where some waited, each request that we sent since then waits too."""
    return max(0, load.waiting + in_flight - load.in_flight) if load.waiting else 0


def standing(policy: Policy, backend: Backend, in_flight: int, now: MonotonicMs) -> Standing:
    """How the backend is seen now, with so many requests of ours. Their number only tells *alive* from *full*."""
    health = backend.health
    if isinstance(health, Out):
        return (
            ("probation", "alive")[health.on_trial] if now >= health.until else ("dead", "probation")[health.on_trial]
        )
    load = fresh_load(policy, backend, now)
    if load is not None and load.verdict == "stalled":
        return "stalled"
    if isinstance(health, Full) and now < health.until:
        return "full"
    if load is not None and policy.max_waiting is not None and waiting_now(load, in_flight) > policy.max_waiting:
        return "full"
    return "alive"


def why(policy: Policy, backend: Backend, in_flight: int, now: MonotonicMs) -> str:
    """The reason for its standing, for people; empty when it is alive."""
    seen = standing(policy, backend, in_flight, now)
    if seen == "alive":
        return ""
    if isinstance(backend.health, Out):
        return backend.health.reason
    if seen == "stalled":
        return "requests run and no token comes"
    if isinstance(backend.health, Full) and now < backend.health.until:
        return "it turned a request away"
    return f"more than {policy.max_waiting} requests wait"
