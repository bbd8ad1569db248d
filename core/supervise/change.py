"""Small changes of a state, shared by all rules. A move is the new state and what is to be done."""

from collections.abc import Iterator
from typing import TypeAlias

from core.supervise.effects import (
    Backend,
    Effect,
    Signal,
    SignalClient,
    SignalEndpoint,
    SignalServer,
)
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.state import (
    Booting,
    Client,
    Closed,
    Ending,
    Endpoint,
    Gone,
    Judging,
    Life,
    Phase,
    Ready,
    State,
    Stopping,
    Unit,
)
from core.supervise.verdict import Cause, Verdict
from core.units import Alias, MonotonicMs, StepName

Move: TypeAlias = tuple[State, tuple[Effect, ...]]


def with_phase(state: State, phase: Phase) -> State:
    """The same, in another phase."""
    return _copy(state, phase=phase)


def with_client(state: State, client: Client) -> State:
    """The same, with another client."""
    return _copy(state, client=client)


def with_unit(state: State, unit: Unit) -> State:
    """The same, with this unit in place of the one of its name."""
    return _copy(state, units=tuple(unit if old.step == unit.step else old for old in state.units))


def with_endpoint(state: State, endpoint: Endpoint) -> State:
    """The same, with this endpoint in place of the one of its alias."""
    return _copy(state, endpoints=tuple(endpoint if old.alias == endpoint.alias else old for old in state.endpoints))


def with_times(state: State, *, probe_at: MonotonicMs, wake_at: MonotonicMs | None, readiness: int) -> State:
    """The same, with other times and revision."""
    return State(
        phase=state.phase,
        units=state.units,
        endpoints=state.endpoints,
        client=state.client,
        probe_at=probe_at,
        wake_at=wake_at,
        readiness=readiness,
    )


def without_timer(state: State) -> State:
    """The same, after its timer has fired: there is none pending."""
    return with_times(state, probe_at=state.probe_at, wake_at=None, readiness=state.readiness)


def _copy(
    state: State,
    phase: Phase | None = None,
    units: tuple[Unit, ...] | None = None,
    endpoints: tuple[Endpoint, ...] | None = None,
    client: Client | None = None,
) -> State:
    return State(
        phase=phase or state.phase,
        units=state.units if units is None else units,
        endpoints=state.endpoints if endpoints is None else endpoints,
        client=client or state.client,
        probe_at=state.probe_at,
        wake_at=state.wake_at,
        readiness=state.readiness,
    )


def alive(unit: Unit) -> bool:
    """Whether processes of the unit may exist."""
    return isinstance(unit.life, Booting | Ready | Ending)


def client_alive(state: State) -> bool:
    """Whether the client's process exists."""
    return not isinstance(state.client, Judging | Gone)


def unit_of(state: State, step: StepName, launch: int) -> Unit | None:
    """The unit, if this is its present launch: what strangers and the dead say does not matter."""
    return next((unit for unit in state.units if unit.step == step and unit.launch == launch), None)


def rule_of(plan: SupervisePlan, step: StepName) -> DeploymentRule:
    """The rule that governs a unit."""
    return next(rule for rule in plan.deployments if step in rule.units)


def ready_of(plan: SupervisePlan, state: State, alias: Alias) -> tuple[Backend, ...]:
    """The launches of a model that serve, in planner order."""
    units = {unit.step: unit for unit in state.units}
    rule = next(rule for rule in plan.deployments if rule.alias == alias)
    return tuple(
        Backend(step=step, launch=units[step].launch) for step in rule.units if isinstance(units[step].life, Ready)
    )


def alter(unit: Unit, life: Life, *, launch: int | None = None, restarts: int = 0, port_retries: int = 0) -> Unit:
    """The unit in another state of life; counts are added."""
    return Unit(
        step=unit.step,
        launch=launch or unit.launch,
        restarts=unit.restarts + restarts,
        port_retries=unit.port_retries + port_retries,
        life=life,
    )


def end_unit(plan: SupervisePlan, state: State, unit: Unit, cause: Cause, at: MonotonicMs) -> Move:
    """Tell what is left of a unit to end."""
    kill_at = MonotonicMs(at + plan.grace_ms)
    effects: tuple[Effect, ...] = (SignalServer(step=unit.step, launch=unit.launch, signal="TERM"),)
    return with_unit(state, alter(unit, Ending(cause=cause, kill_at=kill_at))), effects


def stop(plan: SupervisePlan, state: State, verdict: Verdict, at: MonotonicMs) -> Move:
    """Begin the end, in order: client, endpoints, servers. The first verdict stands."""
    if isinstance(state.phase, Stopping):
        return state, ()
    kill_at = MonotonicMs(at + plan.grace_ms)
    stopping = with_phase(state, Stopping(verdict=verdict, stage="client", kill_at=kill_at))
    return stopping, tuple(signals(stopping, "TERM"))


def signals(state: State, signal: Signal) -> Iterator[Effect]:
    """A signal to everything of the present stage, last started first."""
    assert isinstance(state.phase, Stopping)
    match state.phase.stage:
        case "client":
            if client_alive(state):
                yield SignalClient(signal=signal)
        case "endpoints":
            for endpoint in reversed(state.endpoints):
                if not isinstance(endpoint.life, Closed):
                    yield SignalEndpoint(alias=endpoint.alias, launch=endpoint.launch, signal=signal)
        case "servers":
            for unit in reversed(state.units):
                if alive(unit):
                    yield SignalServer(step=unit.step, launch=unit.launch, signal=signal)
