"""What the endpoint learns from what happens. Pure and total: news of a backend that is not there changes nothing.

A fit backend is changed by failures only, so the endpoint needs to tell of `Started`, `Answered` and `Finished` only
where a backend is unfit (`core.admission.rotation`).
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from core.admission.events import (
    AdmissionEvent,
    Answered,
    BackendsGiven,
    DrainAsked,
    Failed,
    Finished,
    LoadSampled,
    RequestEvent,
    Started,
    TurnedAway,
)
from core.admission.state import FIT, Admission, Backend, Full, Health, Load, Out, Policy, penalty_ms, standing, why
from core.endpoint_spec import BackendAddress, BackendState
from core.units import MonotonicMs

_REQUEST_EVENTS = (Started, Answered, Finished, TurnedAway, Failed)


def begin(policy: Policy, now: MonotonicMs) -> Admission:
    """Before the first backend is known."""
    return Admission(policy=policy, down_since=now)


def observe(state: Admission, event: AdmissionEvent, now: MonotonicMs) -> Admission:
    """The state after the event."""
    if isinstance(event, _REQUEST_EVENTS):
        return _of_request(state, event, now)
    match event:
        case LoadSampled():
            return _sampled(state, event, now)
        case BackendsGiven():
            return _given(state, event.backends, now)
        case DrainAsked():
            return msgspec.structs.replace(state, draining=True)
        case _:
            assert_never(event)


def seen(state: Admission, in_flight: Sequence[int], now: MonotonicMs) -> tuple[BackendState, ...]:
    """How each backend is seen, for the owner of the endpoint."""
    return tuple(
        BackendState(id=b.id, state=standing(state.policy, b, busy, now), reason=why(state.policy, b, busy, now))
        for b, busy in zip(state.backends, in_flight, strict=True)
    )


def _of_request(state: Admission, event: RequestEvent, now: MonotonicMs) -> Admission:
    index = 0
    for backend in state.backends:
        if backend.serial == event.serial:
            break
        index += 1
    else:
        return state
    after = _after(state.policy, backend, event, now)
    if after is backend:
        return state
    return _with_health(state, (*state.backends[:index], after, *state.backends[index + 1 :]), now)


def _after(policy: Policy, backend: Backend, event: RequestEvent, now: MonotonicMs) -> Backend:
    health = backend.health
    match event:
        case Started():
            return _with(backend, _tried(policy, health, now))
        case Answered():
            return _with(backend, FIT) if isinstance(health, Out) else backend
        case Finished():
            return _with(backend, FIT) if isinstance(health, Full) else backend
        case TurnedAway(retry_after_ms=pause):
            return _with(backend, Full(until=MonotonicMs(now + max(pause, 0))))
        case Failed(reason=reason):
            return _failed(policy, backend, reason, now)
        case _:
            assert_never(event)


def _tried(policy: Policy, health: Health, now: MonotonicMs) -> Health:
    """A request goes to a backend that was out: the first one is the trial; a later one finds it passed."""
    if not isinstance(health, Out) or now < health.until:
        return health
    if health.on_trial:
        return FIT
    return Out(until=MonotonicMs(now + policy.trial_ms), reason=health.reason, on_trial=True)


def _failed(policy: Policy, backend: Backend, reason: str, now: MonotonicMs) -> Backend:
    """One strike for one death: what else was in flight then and breaks now does not count again."""
    if isinstance(backend.health, Out) and not backend.health.on_trial:
        return backend
    recent = backend.strikes > 0 and now - backend.struck_at < policy.forget_ms
    strikes = backend.strikes + 1 if recent else 1
    until = MonotonicMs(now + penalty_ms(policy, strikes))
    out = Out(until=until, reason=reason, on_trial=False)
    return msgspec.structs.replace(backend, health=out, strikes=strikes, struck_at=now)


def _with(backend: Backend, health: Health) -> Backend:
    return backend if health is backend.health else msgspec.structs.replace(backend, health=health)


def _sampled(state: Admission, event: LoadSampled, now: MonotonicMs) -> Admission:
    load = Load(waiting=event.waiting, running=event.running, verdict=event.verdict, in_flight=event.in_flight, at=now)
    backends = (msgspec.structs.replace(b, load=load) if b.id == event.id else b for b in state.backends)
    return _with_health(state, tuple(backends), now)


def _given(state: Admission, addresses: tuple[BackendAddress, ...], now: MonotonicMs) -> Admission:
    """Those that stay keep what is known of them; the first of two with one id counts."""
    known = {(b.id, b.host, b.port): b for b in state.backends}
    unique = {address.id: address for address in reversed(addresses)}
    serial = state.next_serial
    backends: list[Backend] = []
    for address in reversed(unique.values()):
        old = known.get((address.id, address.url_host, address.port))
        if old is None:
            old = Backend(serial=serial, id=address.id, host=address.url_host, port=address.port)
            serial += 1
        backends.append(old)
    return _with_health(msgspec.structs.replace(state, next_serial=serial), tuple(backends), now)


def _with_health(state: Admission, backends: tuple[Backend, ...], now: MonotonicMs) -> Admission:
    up = any(standing(state.policy, backend, 0, now) in ("alive", "full") for backend in backends)
    since = None if up else (now if state.down_since is None else state.down_since)
    return msgspec.structs.replace(state, backends=backends, down_since=since, revision=state.revision + 1)
