"""What follows for the whole, after the event's own rule: routes, readiness, the client's release, the end."""

from collections.abc import Iterator

from core.supervise.change import (
    Move,
    alive,
    client_alive,
    ready_of,
    signals,
    stop,
    with_client,
    with_phase,
    with_times,
)
from core.supervise.effects import Effect, PublishReadiness, ReleaseClient, Route, WakeAt
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.state import (
    Booting,
    Finished,
    GivenUp,
    Prepared,
    Ready,
    Running,
    State,
    Stopping,
    Unit,
    Working,
)
from core.supervise.timers import next_deadline
from core.supervise.verdict import ServersFailed
from core.units import MonotonicMs


def settle(plan: SupervisePlan, before: State, moved: Move, at: MonotonicMs) -> Move:
    """The move of an event, completed."""
    state, effects = moved
    done: list[Effect] = list(effects)
    for follow in (_lost, _release, _next_stage):
        state, more = follow(plan, state, at)
        done += more
    changed = tuple(_routes(plan, before, state))
    done += changed
    readiness = state.readiness + bool(changed)
    if changed:
        ready = tuple(backend for rule in plan.deployments for backend in ready_of(plan, state, rule.alias))
        done.append(PublishReadiness(revision=readiness, ready=ready))
    probe_at = state.probe_at
    booting_anew = any(isinstance(unit.life, Booting) for unit in state.units) and probe_at < at
    probe_at = MonotonicMs(at + plan.probe_every_ms) if booting_anew else probe_at
    state = with_times(state, probe_at=probe_at, wake_at=state.wake_at, readiness=readiness)
    wake_at = next_deadline(plan, state)
    if wake_at is not None and wake_at != before.wake_at:
        done.append(WakeAt(at=wake_at))
    return with_times(state, probe_at=probe_at, wake_at=wake_at, readiness=readiness), tuple(done)


def _routes(plan: SupervisePlan, before: State, now: State) -> Iterator[Route]:
    for rule in plan.deployments:
        backends = ready_of(plan, now, rule.alias)
        was_opening = {(e.alias, e.launch) for e in before.endpoints if e.life == "listening"}
        fresh = any(
            e.alias == rule.alias and e.life == "listening" and (e.alias, e.launch) not in was_opening
            for e in now.endpoints
        )
        if backends != ready_of(plan, before, rule.alias) or (fresh and backends):
            yield Route(alias=rule.alias, backends=backends)


def _lost(plan: SupervisePlan, state: State, at: MonotonicMs) -> Move:
    """Stop when a model can no longer have as many units as it needs."""
    if not isinstance(state.phase, Running):
        return state, ()
    for rule in plan.deployments:
        units = [unit for unit in state.units if unit.step in rule.units]
        given_up = [unit for unit in units if isinstance(unit.life, GivenUp)]
        if len(units) - len(given_up) < rule.min_ready:
            last = given_up[-1]
            assert isinstance(last.life, GivenUp)
            verdict = ServersFailed(alias=rule.alias, step=last.step, launch=last.launch, cause=last.life.cause)
            return stop(plan, state, verdict, at)
    return state, ()


def _release(plan: SupervisePlan, state: State, at: MonotonicMs) -> Move:
    if not isinstance(state.phase, Running) or not isinstance(state.client, Prepared):
        return state, ()
    listening = all(endpoint.life == "listening" for endpoint in state.endpoints)
    if not listening or not all(_enough(rule, state) for rule in plan.deployments):
        return state, ()
    return with_client(state, Working()), (ReleaseClient(),)


def _enough(rule: DeploymentRule, state: State) -> bool:
    """All units are ready; or as many as must be, and every other one has failed at least once."""
    units = [unit for unit in state.units if unit.step in rule.units]
    ready = [unit for unit in units if isinstance(unit.life, Ready)]
    return len(ready) >= rule.min_ready and all(unit in ready or _has_failed(unit) for unit in units)


def _has_failed(unit: Unit) -> bool:
    return unit.restarts > 0 or isinstance(unit.life, GivenUp)


def _next_stage(plan: SupervisePlan, state: State, at: MonotonicMs) -> Move:
    """Go on with the end as soon as a stage is empty. Units that do not run are given up with the last stage."""
    effects: list[Effect] = []
    kill_at = MonotonicMs(at + plan.grace_ms)
    while isinstance(state.phase, Stopping) and not _stage_runs(state):
        verdict = state.phase.verdict
        match state.phase.stage:
            case "client":
                state = with_phase(state, Stopping(verdict=verdict, stage="endpoints", kill_at=kill_at))
            case "endpoints":
                state = with_phase(state, Stopping(verdict=verdict, stage="servers", kill_at=kill_at))
            case "servers":
                return with_phase(state, Finished(verdict=verdict)), tuple(effects)
        effects += signals(state, "TERM")
    return state, tuple(effects)


def _stage_runs(state: State) -> bool:
    assert isinstance(state.phase, Stopping)
    match state.phase.stage:
        case "client":
            return client_alive(state)
        case "endpoints":
            return any(endpoint.life != "gone" for endpoint in state.endpoints)
        case "servers":
            return any(alive(unit) for unit in state.units)
