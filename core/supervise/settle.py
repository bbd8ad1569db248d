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
from core.supervise.effects import Effect, Explain, PublishReadiness, ReleaseClient, Route, WakeAt
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.relaunch import too_few
from core.supervise.state import (
    Booting,
    Closed,
    Ending,
    Finished,
    GivenUp,
    Judging,
    Listening,
    Prepared,
    Ready,
    Running,
    State,
    Stopping,
    Unit,
    Working,
)
from core.supervise.timers import next_deadline
from core.supervise.verdict import lane_to_blame
from core.units import MonotonicMs


def settle(plan: SupervisePlan, before: State, moved: Move, at: MonotonicMs) -> Move:
    """The move of an event, completed."""
    state, effects = moved
    done: list[Effect] = list(effects)
    state, more = _lost(plan, before, state, at)
    done += more
    changed = tuple(_routes(plan, before, state))
    done += changed
    readiness = state.readiness + bool(changed)
    if changed:
        ready = tuple(backend for rule in plan.deployments for backend in ready_of(plan, state, rule.alias))
        done.append(PublishReadiness(revision=readiness, ready=ready))
    for follow in (_release, _next_stage):
        state, more = follow(plan, state, at)
        done += more
    probe_at = state.probe_at
    if probe_at < at and _booting(state) and not _booting(before):
        probe_at = MonotonicMs(at + plan.probe_every_ms)
    state = with_times(state, probe_at=probe_at, wake_at=state.wake_at, readiness=readiness)
    wake_at = next_deadline(plan, state)
    if wake_at is not None and wake_at != before.wake_at:
        done.append(WakeAt(at=wake_at))
    return with_times(state, probe_at=probe_at, wake_at=wake_at, readiness=readiness), tuple(done)


def _booting(state: State) -> bool:
    return any(isinstance(unit.life, Booting) for unit in state.units)


def _routes(plan: SupervisePlan, before: State, now: State) -> Iterator[Route]:
    for rule in plan.deployments:
        backends = ready_of(plan, now, rule.alias)
        known = {(e.alias, e.launch) for e in before.endpoints if isinstance(e.life, Listening)}
        fresh = any(
            e.alias == rule.alias and isinstance(e.life, Listening) and (e.alias, e.launch) not in known
            for e in now.endpoints
        )
        if backends != ready_of(plan, before, rule.alias) or (fresh and backends):
            yield Route(alias=rule.alias, backends=backends)


def _lost(plan: SupervisePlan, before: State, state: State, at: MonotonicMs) -> Move:
    """Stop when too few units are left; not when the client has ended, for then its result decides."""
    if not isinstance(state.phase, Running) or isinstance(state.client, Judging):
        return state, ()
    verdict = too_few(plan, before, state)
    if verdict is None:
        return state, ()
    still_ending = any(unit.step == verdict.step and isinstance(unit.life, Ending) for unit in state.units)
    blamed = Explain(step=verdict.step, launch=verdict.launch, lane=lane_to_blame(verdict.cause))
    explain = (blamed,) if still_ending else ()
    stopping, effects = stop(plan, state, verdict, at)
    return stopping, (*explain, *effects)


def _release(plan: SupervisePlan, state: State, at: MonotonicMs) -> Move:
    if not isinstance(state.phase, Running) or not isinstance(state.client, Prepared):
        return state, ()
    listening = all(isinstance(endpoint.life, Listening) for endpoint in state.endpoints)
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
            return any(not isinstance(endpoint.life, Closed) for endpoint in state.endpoints)
        case "servers":
            return any(alive(unit) for unit in state.units)
