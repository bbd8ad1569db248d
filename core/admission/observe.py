"""What the endpoint learns from what happens. Pure and total: news of a backend that is not there changes nothing."""

from typing import assert_never

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
    if isinstance(event, _REQUEST_EVENTS):  # the way that every request takes four times
        return _of_request(state, event, now)
    match event:
        case LoadSampled():
            return _sampled(state, event, now)
        case BackendsGiven():
            return _given(state, event.backends, now)
        case DrainAsked():
            return _copy(state, draining=True)
        case _:
            assert_never(event)


def seen(state: Admission, now: MonotonicMs) -> tuple[BackendState, ...]:
    """How each backend is seen, for the owner of the endpoint."""
    return tuple(
        BackendState(id=b.id, state=standing(state.policy, b, now), reason=why(state.policy, b, now))
        for b in state.backends
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
    backends = (*state.backends[:index], after, *state.backends[index + 1 :])
    turn = index + 1 if isinstance(event, Started) else state.turn
    if after.health is backend.health:
        return _copy(state, backends=backends, turn=turn)
    return _with_health(state, backends, turn, now)


def _after(policy: Policy, backend: Backend, event: RequestEvent, now: MonotonicMs) -> Backend:
    health = backend.health
    match event:
        case Started():
            return _backend(backend, backend.in_flight + 1, _tried(policy, health, now))
        case Answered():
            return _backend(backend, backend.in_flight, FIT) if isinstance(health, Out) else backend
        case Finished():
            return _backend(backend, backend.in_flight - 1, FIT if isinstance(health, Full) else health)
        case TurnedAway(retry_after_ms=pause):
            return _backend(backend, backend.in_flight - 1, Full(until=MonotonicMs(now + max(pause, 0))))
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
    left = backend.in_flight - 1
    if isinstance(backend.health, Out) and not backend.health.on_trial:
        return _backend(backend, left, backend.health)
    recent = backend.strikes > 0 and now - backend.struck_at < policy.forget_ms
    strikes = backend.strikes + 1 if recent else 1
    until = MonotonicMs(now + penalty_ms(policy, strikes))
    return _backend(backend, left, Out(until=until, reason=reason, on_trial=False), strikes, now)


def _backend(
    old: Backend, in_flight: int, health: Health, strikes: int | None = None, struck_at: MonotonicMs | None = None
) -> Backend:
    return Backend(
        serial=old.serial,
        id=old.id,
        host=old.host,
        port=old.port,
        in_flight=max(in_flight, 0),
        health=health,
        strikes=old.strikes if strikes is None else strikes,
        struck_at=old.struck_at if struck_at is None else struck_at,
        load=old.load,
    )


def _sampled(state: Admission, event: LoadSampled, now: MonotonicMs) -> Admission:
    backends = tuple(_with_load(b, event, now) if b.id == event.id else b for b in state.backends)
    return _with_health(state, backends, state.turn, now)


def _with_load(backend: Backend, event: LoadSampled, now: MonotonicMs) -> Backend:
    load = Load(
        waiting=event.waiting, running=event.running, verdict=event.verdict, in_flight=backend.in_flight, at=now
    )
    return Backend(
        serial=backend.serial,
        id=backend.id,
        host=backend.host,
        port=backend.port,
        in_flight=backend.in_flight,
        health=backend.health,
        strikes=backend.strikes,
        struck_at=backend.struck_at,
        load=load,
    )


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
    return _with_health(_copy(state, next_serial=serial), tuple(backends), 0, now)


def _with_health(state: Admission, backends: tuple[Backend, ...], turn: int, now: MonotonicMs) -> Admission:
    up = any(standing(state.policy, backend, now) in ("alive", "full") for backend in backends)
    since = None if up else (now if state.down_since is None else state.down_since)
    return Admission(
        policy=state.policy,
        backends=backends,
        next_serial=state.next_serial,
        turn=turn,
        draining=state.draining,
        down_since=since,
        revision=state.revision + 1,
    )


def _copy(
    state: Admission,
    *,
    backends: tuple[Backend, ...] | None = None,
    turn: int | None = None,
    next_serial: int | None = None,
    draining: bool | None = None,
) -> Admission:
    return Admission(
        policy=state.policy,
        backends=state.backends if backends is None else backends,
        next_serial=state.next_serial if next_serial is None else next_serial,
        turn=state.turn if turn is None else turn,
        draining=state.draining if draining is None else draining,
        down_since=state.down_since,
        revision=state.revision,
    )
