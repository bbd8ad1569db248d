"""The loop that obeys the supervisor, in a world that answers at once. What is decided is tested in core."""

import itertools
import signal
import threading
from collections.abc import Callable

import msgspec
import pytest

from core.supervise.effects import (
    CheckResult,
    Effect,
    ProbeServer,
    PublishReadiness,
    ReleaseClient,
    Route,
    SignalClient,
    SignalEndpoint,
    SignalServer,
    StartClient,
    StartEndpoint,
)
from core.supervise.events import (
    ClientExited,
    ClientIsPrepared,
    EndpointExited,
    EndpointListening,
    Event,
    ResultChecked,
    ServerExited,
    ServerReady,
    StopAsked,
    TimerFired,
)
from core.supervise.state import State
from core.supervise.step import begin, step
from core.supervise.verdict import Completed, Stopped
from core.units import MonotonicMs
from shell.attempt.interpreter import Begun, Interpreter, monotonic_ms
from tests.core.retell import read_plan

PLAN = read_plan(["model writer units=2", "limits probe_every_ms=5 grace_ms=20"])


class Obedient:
    """A world in which all goes well; `instead` may do something else about an effect."""

    def __init__(self, instead: Callable[[Effect], bool] = lambda effect: False) -> None:
        self.lines: list[bytes] = []
        self.interpreter = Interpreter(PLAN, self.lines.append)
        self.done: list[Effect] = []
        self.seen: list[State] = []
        self.written_before: list[int] = []
        self._instead = instead

    def carry_out(self, effect: Effect) -> None:
        self.done.append(effect)
        self.written_before.append(len(self.lines))
        if not self._instead(effect):
            for event in answers(effect, monotonic_ms()):
                self.interpreter.put(event)

    def observe(self, before: State, after: State, at: MonotonicMs) -> None:
        assert before in (self.seen[-1:] or [before])
        self.seen.append(after)


def answers(effect: Effect, at: MonotonicMs) -> list[Event]:
    match effect:
        case StartClient():
            return [ClientIsPrepared(at=at)]
        case StartEndpoint(alias=alias, launch=launch):
            return [EndpointListening(at=at, alias=alias, launch=launch)]
        case ProbeServer(step=name, launch=launch):
            return [ServerReady(at=at, step=name, launch=launch)]
        case ReleaseClient():
            return [ClientExited(at=at, code=0)]
        case CheckResult():
            return [ResultChecked(at=at, reasons=())]
        case SignalClient():
            return [ClientExited(at=at, code=143)]
        case SignalEndpoint(alias=alias, launch=launch):
            return [EndpointExited(at=at, alias=alias, launch=launch, code=0)]
        case SignalServer(step=name, launch=launch):
            return [ServerExited(at=at, step=name, launch=launch, code=143)]
        case _:
            return []


def journal_of(world: Obedient) -> tuple[Begun, list[Event]]:
    events = [msgspec.json.decode(line, type=Event) for line in world.lines[1:]]
    return msgspec.json.decode(world.lines[0], type=Begun), events


def test_a_run_goes_to_its_end_and_its_journal_replays_to_the_same_states() -> None:
    world = Obedient()
    assert world.interpreter.run(world) == Completed()
    begun, events = journal_of(world)
    state, _ = begin(begun.plan, begun.at)
    steps = itertools.accumulate(events, lambda now, event: step(begun.plan, now, event)[0], initial=state)
    assert list(steps)[1:] == world.seen


def test_each_event_is_written_before_it_has_an_effect() -> None:
    world = Obedient()
    world.interpreter.run(world)
    begun, events = journal_of(world)
    state, effects = begin(begun.plan, begun.at)
    expected = [1 for effect in effects if effect in world.done]
    for lines, event in enumerate(events, start=2):
        state, effects = step(begun.plan, state, event)
        expected += [lines for effect in effects if effect in world.done]
    assert world.written_before == expected


def test_what_is_deaf_is_killed_by_the_timer() -> None:
    deaf: list[Effect] = []

    def ignore(effect: Effect) -> bool:
        ignored = isinstance(effect, SignalEndpoint) and effect.signal == "TERM"
        deaf.extend([effect] if ignored else [])
        return ignored

    world = Obedient(ignore)
    assert world.interpreter.run(world) == Completed()
    assert [effect.signal for effect in world.done if isinstance(effect, SignalEndpoint)] == ["TERM", "KILL"]
    assert deaf
    fired = [event for event in journal_of(world)[1] if isinstance(event, TimerFired)]
    assert len(fired) >= 2


def test_a_signal_handler_and_another_thread_may_put_events() -> None:
    def interrupt(effect: Effect) -> bool:
        if isinstance(effect, ReleaseClient):
            signal.raise_signal(signal.SIGUSR1)
        return isinstance(effect, ReleaseClient)

    world = Obedient(interrupt)

    def asked(number: int, frame: object) -> None:
        event = StopAsked(at=monotonic_ms(), reason="SIGUSR1", exit_code=138)
        thread = threading.Thread(target=world.interpreter.put, args=(event,))
        thread.start()
        thread.join()

    before = signal.signal(signal.SIGUSR1, asked)
    try:
        assert world.interpreter.run(world) == Stopped(reason="SIGUSR1", exit_code=138)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_calls_run_in_the_owning_thread_and_are_not_written() -> None:
    ran: list[int] = []

    def also_call(effect: Effect) -> bool:
        if isinstance(effect, StartClient):
            world.interpreter.put(lambda: ran.append(threading.get_ident()))
        return False

    world = Obedient(also_call)
    world.interpreter.run(world)
    assert ran == [threading.get_ident()]
    assert len(world.seen) == len(world.lines) - 1


def test_routes_of_a_burst_are_told_once_and_before_the_client_works() -> None:
    """All servers of a plan come up at once: what endpoints are told does not grow with the square of their number."""
    world = Obedient()
    plan = read_plan(["model writer units=40", "limits probe_every_ms=5 grace_ms=20"])
    world.interpreter = Interpreter(plan, world.lines.append)
    world.interpreter.run(world)
    before_work = world.done[: world.done.index(ReleaseClient())]
    routes = [effect for effect in before_work if isinstance(effect, Route)]
    assert len(routes) < 5
    assert len(routes[-1].backends) == 40
    assert [len(e.ready) for e in before_work if isinstance(e, PublishReadiness)][-1] == 40
    last = [effect for effect in world.done if isinstance(effect, Route | PublishReadiness)][-2:]
    assert [len(e.backends if isinstance(e, Route) else e.ready) for e in last] == [0, 0]


def test_nothing_is_done_about_an_event_that_cannot_be_written() -> None:
    class Full(Exception):
        pass

    def write(line: bytes) -> None:
        if b"client-prepared" in line:
            raise Full

    world = Obedient()
    world.interpreter = Interpreter(PLAN, write)
    with pytest.raises(Full):
        world.interpreter.run(world)
    assert not world.seen
