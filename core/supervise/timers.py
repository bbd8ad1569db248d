"""What is due at a moment: launches, deadlines, probes, kills."""

from core.supervise.change import (
    Move,
    alter,
    end_unit,
    rule_of,
    signals,
    stop,
    with_endpoint,
    with_phase,
    with_times,
    with_unit,
)
from core.supervise.effects import ProbeServer, Rebind, SignalEndpoint, SignalServer
from core.supervise.plan import SupervisePlan
from core.supervise.relaunch import bury
from core.supervise.state import (
    Booting,
    Ending,
    Endpoint,
    Hurry,
    Judging,
    Opening,
    Preparing,
    Rebinding,
    Running,
    State,
    Stopping,
    Unit,
    Waiting,
)
from core.supervise.verdict import ClientFailed, NotJudged, NotReadyInTime
from core.units import MonotonicMs


def on_timer(plan: SupervisePlan, state: State, at: MonotonicMs) -> Move:
    """Everything that is due, units in planner order."""
    state, first = _client_due(plan, state, at)
    effects = list(first)
    for unit in state.units:
        state, done = _unit_due(plan, state, unit, at)
        effects += done
    for endpoint in state.endpoints:
        state, done = _endpoint_due(plan, state, endpoint, at)
        effects += done
    if isinstance(state.phase, Stopping):
        if at >= state.phase.kill_at:
            effects += signals(state, "KILL")
            later = MonotonicMs(at + plan.grace_ms)
            phase = Stopping(verdict=state.phase.verdict, stage=state.phase.stage, kill_at=later)
            state = with_phase(state, phase)
        return state, tuple(effects)
    if at >= state.probe_at and isinstance(state.phase, Running):
        effects += (ProbeServer(step=u.step, launch=u.launch) for u in state.units if isinstance(u.life, Booting))
        again = MonotonicMs(at + plan.probe_every_ms)
        state = with_times(state, probe_at=again, wake_at=state.wake_at, readiness=state.readiness)
    return state, tuple(effects)


def _client_due(plan: SupervisePlan, state: State, at: MonotonicMs) -> Move:
    match state.client:
        case Preparing(deadline=deadline) if at >= deadline:
            reasons = (f"it was not prepared within {plan.prepare_timeout_ms // 1000} s",)
            return stop(plan, state, ClientFailed(code=0, reasons=reasons), at)
        case Judging(hurry=Hurry(otherwise=verdict, until=until)) if at >= until:
            return stop(plan, state, verdict, at)
        case Judging(deadline=deadline) if at >= deadline:
            return stop(plan, state, NotJudged(after_ms=plan.judge_timeout_ms), at)
        case _:
            return state, ()


def _unit_due(plan: SupervisePlan, state: State, unit: Unit, at: MonotonicMs) -> Move:
    running = isinstance(state.phase, Running)
    match unit.life:
        case Waiting(at=due) if running and at >= due:
            return with_unit(state, alter(unit, Rebinding(since=at))), (Rebind(step=unit.step, launch=unit.launch),)
        case Booting(since=since) if running:
            rule = rule_of(plan, unit.step)
            if at - since >= rule.startup_timeout_ms:
                cause = NotReadyInTime(after_ms=rule.startup_timeout_ms, nodes_together=rule.nodes_together)
                return end_unit(plan, state, unit, cause, at)
        case Rebinding(since=since) if running:
            limit = rule_of(plan, unit.step).startup_timeout_ms
            if at - since >= limit:
                return bury(plan, state, unit, NotReadyInTime(after_ms=limit), at)
        case Ending(cause=cause, kill_at=kill_at) if at >= kill_at:
            later = Ending(cause=cause, kill_at=MonotonicMs(at + plan.grace_ms))
            kill = SignalServer(step=unit.step, launch=unit.launch, signal="KILL")
            return with_unit(state, alter(unit, later)), (kill,)
        case _:
            pass
    return state, ()


def _endpoint_due(plan: SupervisePlan, state: State, endpoint: Endpoint, at: MonotonicMs) -> Move:
    """Kill an endpoint that does not come to listen: its exit then counts like any other."""
    if not isinstance(state.phase, Running) or not isinstance(endpoint.life, Opening) or at < endpoint.life.deadline:
        return state, ()
    later = Opening(deadline=MonotonicMs(at + plan.prepare_timeout_ms))
    kill = SignalEndpoint(alias=endpoint.alias, launch=endpoint.launch, signal="KILL")
    return with_endpoint(state, Endpoint(alias=endpoint.alias, launch=endpoint.launch, life=later)), (kill,)


def next_deadline(plan: SupervisePlan, state: State) -> MonotonicMs | None:
    """When the supervisor must look again at the latest; None when only events can change anything."""
    times = [due for unit in state.units for due in _deadlines(plan, state, unit)]
    if isinstance(state.phase, Stopping):
        times.append(state.phase.kill_at)
    elif isinstance(state.phase, Running):
        times += (endpoint.life.deadline for endpoint in state.endpoints if isinstance(endpoint.life, Opening))
        times += _client_deadlines(state)
    return min(times, default=None)


def _client_deadlines(state: State) -> tuple[MonotonicMs, ...]:
    match state.client:
        case Judging(hurry=Hurry(until=until)):
            return (until,)
        case Preparing(deadline=deadline) | Judging(deadline=deadline):
            return (deadline,)
        case _:
            return ()


def _deadlines(plan: SupervisePlan, state: State, unit: Unit) -> tuple[MonotonicMs, ...]:
    match unit.life:
        case Ending(kill_at=kill_at):
            return (kill_at,)
        case Waiting(at=at) if isinstance(state.phase, Running):
            return (at,)
        case Rebinding(since=since) if isinstance(state.phase, Running):
            return (MonotonicMs(since + rule_of(plan, unit.step).startup_timeout_ms),)
        case Booting(since=since) if isinstance(state.phase, Running):
            return (state.probe_at, MonotonicMs(since + rule_of(plan, unit.step).startup_timeout_ms))
        case _:
            return ()
