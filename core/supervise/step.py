"""The supervisor's rules: ``step(plan, state, event) -> (state, effects)``.

Rule 1: everything that decides anything is in `core.supervise`; the shell only obeys.
Rule 2: `step` is total. Any event in any state gives an answer, if need be "nothing to do": processes die at the
worst moment and probes answer late.
Rule 3: once stopping, always stopping. The first verdict stands.
Rule 4: client, endpoints and servers start at once, since each takes long to be up; the client is let loose only when
all that it needs is there.

An event is answered by its own rule first (here, `servers`), then `settle` draws what follows for the whole.
"""

from typing import assert_never

from core.supervise.change import Move, client_alive, stop, with_client, with_endpoint, without_timer
from core.supervise.effects import CheckResult, Effect, StartClient, StartEndpoint, StartServer
from core.supervise.events import (
    ClientEvent,
    ClientExited,
    ClientIsPrepared,
    ClientRefuses,
    EndpointEvent,
    EndpointExited,
    EndpointListening,
    Event,
    RebindRefused,
    Rebound,
    ResultChecked,
    ServerExited,
    ServerForeign,
    ServerReady,
    ServerStalled,
    StopAsked,
    TaskExited,
    TimeLimitNear,
    TimerFired,
)
from core.supervise.plan import SupervisePlan
from core.supervise.relaunch import too_few
from core.supervise.servers import on_server
from core.supervise.settle import settle
from core.supervise.state import (
    Booting,
    Closed,
    Endpoint,
    Finished,
    Gone,
    Hurry,
    Judging,
    Listening,
    Opening,
    Prepared,
    Preparing,
    Running,
    State,
    Stopping,
    Unit,
    Working,
)
from core.supervise.timers import on_timer
from core.supervise.verdict import (
    ClientFailed,
    ClientRefused,
    Completed,
    EndpointFailed,
    OutOfTime,
    Stopped,
    Verdict,
)
from core.units import Alias, MonotonicMs


def begin(plan: SupervisePlan, at: MonotonicMs) -> Move:
    """Start everything at once."""
    units = tuple(
        Unit(step=step, launch=1, restarts=0, port_retries=0, life=Booting(since=at))
        for rule in plan.deployments
        for step in rule.units
    )
    state = State(
        phase=Running(),
        units=units,
        endpoints=tuple(_opened(plan, rule.alias, 1, at) for rule in plan.deployments),
        client=Preparing(deadline=MonotonicMs(at + plan.prepare_timeout_ms)),
        probe_at=MonotonicMs(at + plan.probe_every_ms),
        wake_at=None,
        readiness=0,
    )
    effects: tuple[Effect, ...] = (
        StartClient(),
        *(StartServer(step=unit.step, launch=1) for unit in units),
        *(StartEndpoint(alias=endpoint.alias, launch=1) for endpoint in state.endpoints),
    )
    return settle(plan, state, (state, effects), at)


def step(plan: SupervisePlan, state: State, event: Event) -> Move:
    """Take one event. Pure and total; effects are to be carried out in order."""
    if isinstance(state.phase, Finished):
        return state, ()
    moved = _answer(plan, state, event)
    before = without_timer(state) if isinstance(event, TimerFired) else state
    return settle(plan, before, moved, event.at)


def _answer(plan: SupervisePlan, state: State, event: Event) -> Move:
    match event:
        case (
            TaskExited()
            | ServerExited()
            | ServerReady()
            | ServerForeign()
            | ServerStalled()
            | Rebound()
            | RebindRefused()
        ):
            return on_server(plan, state, event)
        case ClientIsPrepared() | ClientRefuses() | ClientExited() | ResultChecked():
            return _on_client(plan, state, event)
        case EndpointListening() | EndpointExited():
            return _on_endpoint(plan, state, event)
        case StopAsked(at=at, reason=reason, exit_code=code):
            return _end_asked(plan, state, Stopped(reason=reason, exit_code=code), at)
        case TimeLimitNear(at=at):
            return _end_asked(plan, state, OutOfTime(), at)
        case TimerFired(at=at):
            return on_timer(plan, state, at)
        case _:
            assert_never(event)


def _end_asked(plan: SupervisePlan, state: State, verdict: Verdict, at: MonotonicMs) -> Move:
    """Stop; but a result that is being looked at gets the grace, so that finished work is not done again."""
    if not isinstance(state.phase, Running) or not isinstance(state.client, Judging):
        return stop(plan, state, verdict, at)
    client = state.client
    hurry = client.hurry or Hurry(otherwise=verdict, until=min(MonotonicMs(at + plan.grace_ms), client.deadline))
    return with_client(state, Judging(code=client.code, deadline=client.deadline, hurry=hurry)), ()


def _on_client(plan: SupervisePlan, state: State, event: ClientEvent) -> Move:
    match event:
        case ClientIsPrepared():
            ready = isinstance(state.client, Preparing) and isinstance(state.phase, Running)
            return (with_client(state, Prepared()) if ready else state), ()
        case ClientRefuses(at=at, reasons=reasons):
            return stop(plan, state, ClientRefused(reasons=reasons), at) if client_alive(state) else (state, ())
        case ClientExited(at=at, code=code):
            if not client_alive(state):
                return state, ()
            if isinstance(state.client, Working) and isinstance(state.phase, Running):
                deadline = MonotonicMs(at + plan.judge_timeout_ms)
                return with_client(state, Judging(code=code, deadline=deadline)), (CheckResult(),)
            gone = with_client(state, Gone())
            return stop(plan, gone, ClientFailed(code=code, reasons=("it ended before it was let loose",)), at)
        case ResultChecked(at=at, reasons=reasons):
            if not isinstance(state.client, Judging):
                return state, ()
            gone = with_client(state, Gone())
            return stop(plan, gone, _judged(plan, state, state.client, reasons), at)
        case _:
            assert_never(event)


def _judged(plan: SupervisePlan, state: State, client: Judging, reasons: tuple[str, ...]) -> Verdict:
    """A client whose work is not complete is the last to blame: a signal or the loss of servers may have ended it."""
    if client.code == 0 and not reasons:
        return Completed()
    if client.hurry:
        return client.hurry.otherwise
    return too_few(plan, state, state) or ClientFailed(code=client.code, reasons=reasons)


def _on_endpoint(plan: SupervisePlan, state: State, event: EndpointEvent) -> Move:
    now = next((e for e in state.endpoints if e.alias == event.alias and e.launch == event.launch), None)
    if now is None or isinstance(now.life, Closed):
        return state, ()
    if isinstance(event, EndpointListening):
        return with_endpoint(state, Endpoint(alias=now.alias, launch=now.launch, life=Listening())), ()
    closed = with_endpoint(state, Endpoint(alias=now.alias, launch=now.launch, life=Closed()))
    if isinstance(state.phase, Stopping) or isinstance(state.client, Judging):
        return closed, ()
    if now.launch > plan.endpoint_restarts:
        return stop(plan, closed, EndpointFailed(alias=now.alias, code=event.code), event.at)
    again = _opened(plan, now.alias, now.launch + 1, event.at)
    return with_endpoint(state, again), (StartEndpoint(alias=again.alias, launch=again.launch),)


def _opened(plan: SupervisePlan, alias: Alias, launch: int, at: MonotonicMs) -> Endpoint:
    deadline = MonotonicMs(at + plan.prepare_timeout_ms)
    return Endpoint(alias=alias, launch=launch, life=Opening(deadline=deadline))
