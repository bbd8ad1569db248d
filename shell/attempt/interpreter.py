"""Carries out what `core.supervise` decides. Nothing here chooses anything.

One thread owns the state. Everything else (reaper, probes, signal handlers) only puts events on the queue, so there are
no locks to get wrong. Each event is on disk before it has an effect, so a crash never loses a cause, and replaying the
journal through `step` gives the same states. At most one timer is pending.

When hundreds of servers come up or go at once, what endpoints and the readiness file are told changes with each of
them, and all of it is told each time. So these two effects wait while there is more news, but never for longer than
until the next other effect: the client works when all routes are told.
"""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

import msgspec

from core.codec import compact_json
from core.supervise.effects import Effect, PublishReadiness, Route, WakeAt
from core.supervise.events import Event, TimerFired
from core.supervise.plan import SupervisePlan
from core.supervise.state import Finished, State
from core.supervise.step import begin, step
from core.supervise.verdict import Verdict
from core.units import Alias, MonotonicMs

Call: TypeAlias = Callable[[], None]
"""Work for the thread that owns the state, which alone may start processes; not an event and not in the journal."""


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun", tag_field="kind"):
    """The first line of a journal: with it and the events below, all states can be worked out again."""

    at: MonotonicMs
    plan: SupervisePlan


class World(Protocol):
    """What an interpreter acts upon."""

    def carry_out(self, effect: Effect) -> None:
        """Do it, without waiting. Failures of the world become events."""

    def observe(self, before: State, after: State, at: MonotonicMs) -> None:
        """See what changed, for people."""


def monotonic_ms() -> MonotonicMs:
    """Now, of the clock that never jumps."""
    return MonotonicMs(time.monotonic_ns() // 1_000_000)


class Interpreter:
    """The loop. `journal` gets each event as one line of JSON before it is acted upon."""

    def __init__(self, plan: SupervisePlan, journal: Callable[[bytes], None]) -> None:
        self._plan = plan
        self._journal = journal
        self._inbox: SimpleQueue[Event | Call] = SimpleQueue()
        self._wake_at: MonotonicMs | None = None
        self._newest: dict[Alias | None, Route | PublishReadiness] = {}

    def put(self, item: Event | Call) -> None:
        """Hand in an event, or work for the owning thread. Safe from signal handlers and other threads."""
        self._inbox.put(item)

    def run(self, world: World) -> Verdict:
        """Block until the attempt has ended and nothing of it runs any more."""
        begun = Begun(at=monotonic_ms(), plan=self._plan)
        self._journal(compact_json(begun))
        state, effects = begin(self._plan, begun.at)
        while True:
            for effect in effects:
                self._carry_out(world, effect)
            if isinstance(state.phase, Finished) or self._inbox.empty():
                self._catch_up(world)
            if isinstance(state.phase, Finished):
                return state.phase.verdict
            event = self._next_event()
            self._journal(compact_json(event))
            before, (state, effects) = state, step(self._plan, state, event)
            world.observe(before, state, event.at)

    def _carry_out(self, world: World, effect: Effect) -> None:
        match effect:
            case WakeAt(at=at):
                self._wake_at = at
            case Route(alias=alias):
                self._newest[alias] = effect
            case PublishReadiness():
                self._newest[None] = effect
            case _:
                self._catch_up(world)
                world.carry_out(effect)

    def _catch_up(self, world: World) -> None:
        """Carry out the newest of what has waited."""
        waiting, self._newest = self._newest, {}
        for effect in waiting.values():
            world.carry_out(effect)

    def _next_event(self) -> Event:
        while True:
            item = self._next_item()
            if not callable(item):
                return item
            item()

    def _next_item(self) -> Event | Call:
        if self._wake_at is None:
            return self._inbox.get()
        try:
            return self._inbox.get(timeout=max(0, self._wake_at - monotonic_ms()) / 1000)
        except Empty:
            self._wake_at = None
            return TimerFired(at=monotonic_ms())
