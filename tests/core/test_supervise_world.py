"""A small world that answers effects: processes that start, fail, hang, ignore TERM and answer late. Every run in it
ends, and a run in which nothing goes wrong completes."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import TypeAlias, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.supervise.effects import (
    CheckResult,
    Effect,
    ProbeServer,
    Rebind,
    ReleaseClient,
    SignalClient,
    SignalEndpoint,
    SignalServer,
    StartClient,
    StartEndpoint,
    StartServer,
    WakeAt,
)
from core.supervise.events import (
    ClientExited,
    ClientIsPrepared,
    EndpointExited,
    EndpointListening,
    Event,
    RebindRefused,
    Rebound,
    ResultChecked,
    ServerExited,
    ServerReady,
    TaskExited,
    TimerFired,
)
from core.supervise.plan import SupervisePlan
from core.supervise.state import Finished
from core.supervise.step import begin, step
from core.supervise.verdict import ClientFailed, Completed, EndpointFailed, NotJudged, ServersFailed, Verdict
from core.units import MonotonicMs, NodeName
from tests.core.supervise_plans import plans

T = TypeVar("T")
Launch: TypeAlias = tuple[str, int]
MOST_TURNS = 3000
WORK_MS = 700
"""How long the client of this world works."""


class World:
    """Fates are drawn when something starts: hypothesis shrinks them to the simplest run that breaks a law."""

    def __init__(self, plan: SupervisePlan, data: st.DataObject, kind: bool) -> None:
        self.plan, self.data, self.kind = plan, data, kind
        self.now = MonotonicMs(0)
        self.alarm: MonotonicMs | None = None
        self.queue: list[tuple[int, int, Event]] = []
        self.running: set[Launch] = set()
        self.deaf: set[Launch] = set()
        self.ready_at: dict[Launch, int] = {}
        self._order = count()

    def live(self) -> Verdict:
        state, effects = begin(self.plan, self.now)
        for _ in range(MOST_TURNS):
            for effect in effects:
                self.obey(effect)
            if isinstance(state.phase, Finished):
                assert not self.running, "something was left behind"
                return state.phase.verdict
            state, effects = step(self.plan, state, self.next_event())
        raise AssertionError(f"stuck in {state}")

    def next_event(self) -> Event:
        if self.queue and (self.alarm is None or self.queue[0][0] <= self.alarm):
            at, _, event = heapq.heappop(self.queue)
            self.now = max(self.now, MonotonicMs(at))
            if isinstance(event, ClientExited | EndpointExited | ServerExited) and not self.ended(event):
                return self.next_event()
            return event
        assert self.alarm is not None, "nothing will ever happen again"
        self.now, self.alarm = max(self.now, self.alarm), None
        return TimerFired(at=self.now)

    def obey(self, effect: Effect) -> None:
        match effect:
            case StartClient():
                self.start(("client", 1))
                self.later(20 if self.kind else self.pick(20, 100_000), ClientIsPrepared)
            case ReleaseClient():
                self.end_later(("client", 1), WORK_MS, 0 if self.kind else self.pick(0, 1))
            case CheckResult():
                if self.kind or self.pick(True, True, False):
                    self.later(5, ResultChecked, reasons=() if self.kind else self.pick((), ("too few records",)))
            case StartServer(step=name, launch=launch):
                self.start((name, launch))
                self.ready_at[name, launch] = self.now + (30 if self.kind else self.pick(30, 200, 100_000))
                if not self.kind and self.pick(False, True):
                    self.end_later((name, launch), self.pick(1, 100, 400), self.pick(0, 1, 75, -9))
            case ProbeServer(step=name, launch=launch):
                if (name, launch) in self.running and self.now >= self.ready_at[name, launch]:
                    self.later(1 if self.kind else self.pick(1, 60), ServerReady, step=name, launch=launch)
            case Rebind(step=name, launch=launch):
                if self.kind or self.pick(True, True, False):
                    self.later(self.pick(5, 5, 100_000), Rebound, step=name, launch=launch)
                else:
                    self.later(5, RebindRefused, step=name, launch=launch, reasons=("no port is free",))
            case StartEndpoint(alias=alias, launch=launch):
                self.start((alias, launch))
                self.later(10 if self.kind else self.pick(10, 100_000), EndpointListening, alias=alias, launch=launch)
                if not self.kind and self.pick(False, False, True):
                    self.end_later((alias, launch), self.pick(1, 300), 1)
            case SignalClient(signal=signal):
                self.end_by(("client", 1), signal)
            case SignalServer(step=name, launch=launch, signal=signal):
                self.end_by((name, launch), signal)
            case SignalEndpoint(alias=alias, launch=launch, signal=signal):
                self.end_by((alias, launch), signal)
            case WakeAt(at=at):
                self.alarm = at
            case _:
                pass

    def pick(self, *choices: T) -> T:
        return self.data.draw(st.sampled_from(choices))

    def start(self, launch: Launch) -> None:
        assert launch not in self.running
        assert all(name != launch[0] for name, _ in self.running), "the last launch still runs"
        self.running.add(launch)
        if not self.kind and self.pick(False, False, True):
            self.deaf.add(launch)

    def later(self, ms: int, kind: Callable[..., Event], **fields: object) -> None:
        at = MonotonicMs(self.now + ms)
        heapq.heappush(self.queue, (at, next(self._order), kind(at=at, **fields)))

    def end_by(self, launch: Launch, signal: str) -> None:
        if signal == "KILL" or launch not in self.deaf:
            self.end_later(launch, 3, -9 if signal == "KILL" else 143)

    def end_later(self, launch: Launch, ms: int, code: int) -> None:
        """It ends then, unless it has ended before: `next_event` tells only the first end."""
        name, number = launch
        if name == "client":
            self.later(ms, ClientExited, code=code)
        elif any(name == rule.alias for rule in self.plan.deployments):
            self.later(ms, EndpointExited, alias=name, launch=number, code=code)
        else:
            self.later(ms, TaskExited, step=name, launch=number, node=NodeName("node-a"), code=code)
            self.later(ms + 2, ServerExited, step=name, launch=number, code=code)

    def ended(self, event: Event) -> bool:
        """Whether this event is an end of something that runs; then it runs no longer."""
        match event:
            case ClientExited():
                launch: Launch = ("client", 1)
            case EndpointExited():
                launch = (event.alias, event.launch)
            case ServerExited():
                launch = (event.step, event.launch)
            case _:
                return False
        there = launch in self.running
        self.running.discard(launch)
        return there


@given(plans(), st.data())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_every_run_comes_to_an_end(plan: SupervisePlan, data: st.DataObject) -> None:
    comes_to_an_end(plan, data)


@pytest.mark.slow
@given(plans(), st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_many_more_runs_come_to_an_end(plan: SupervisePlan, data: st.DataObject) -> None:
    comes_to_an_end(plan, data)


def comes_to_an_end(plan: SupervisePlan, data: st.DataObject) -> None:
    verdict = World(plan, data, kind=False).live()
    assert isinstance(verdict, Completed | ClientFailed | NotJudged | ServersFailed | EndpointFailed)


@given(plans(), st.data())
def test_a_kind_world_completes(plan: SupervisePlan, data: st.DataObject) -> None:
    assert World(plan, data, kind=True).live() == Completed()
