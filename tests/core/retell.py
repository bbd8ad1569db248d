"""Stories of the supervisor as text: who reads one needs no Python.

``model`` lines say what runs, ``limits`` what is allowed. Then each event, at its time, by its name:

    900ms server-exited writer-0#1 -11

``writer-0#1`` is the first launch of a server step, ``writer#1`` of an endpoint; ``writer-0.r1@node-b=-9`` is the
process that ended first. Indented below an event: what is done about it, in order; after ``|`` what people are told;
after ``=`` what then is so, if it has changed.
"""

import shlex
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from core.supervise.effects import Effect, WakeAt
from core.supervise.events import Event, TimerFired
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.rules import attempt_state, exit_code
from core.supervise.state import Finished, Judging, State, Stopping
from core.supervise.step import begin, step
from core.supervise.story import tell
from core.units import MonotonicMs

EVENTS: dict[str, type[msgspec.Struct]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Event)}
LIMITS = {
    "grace_ms": 500,
    "probe_every_ms": 1000,
    "endpoint_restarts": 1,
    "port_retries": 2,
    "prepare_timeout_ms": 9000,
    "judge_timeout_ms": 20_000,
}


def retell(text: str) -> str:
    """The story with everything below the events worked out anew."""
    lines = [line for line in text.splitlines() if not line.startswith(" ")]
    plan = read_plan(lines)
    teller = _Teller(plan)
    return "".join(f"{told}\n" for line in lines for told in teller.tell(line))


def read_plan(lines: list[str]) -> SupervisePlan:
    """The plan that the head of a story gives."""
    rules: list[DeploymentRule] = []
    limits = dict(LIMITS)
    for line in lines:
        word, *rest = line.split() or [""]
        if word == "model":
            rules.append(_rule(rest[0], dict(pair.split("=") for pair in rest[1:])))
        elif word == "limits":
            limits |= {name: int(value) for name, value in (pair.split("=") for pair in rest)}
    return msgspec.convert({"deployments": rules, **limits}, SupervisePlan)


def _rule(alias: str, given: dict[str, str]) -> DeploymentRule:
    count = int(given.pop("units", "1"))
    defaults = {
        "startup_timeout_ms": "5000",
        "policy": "fail",
        "max_restarts": "3",
        "backoff_ms": "1000",
        "min_ready": str(count),
    }
    units = tuple(f"{alias}-{number}" for number in range(count))
    return msgspec.convert({"alias": alias, "units": units, **defaults, **given}, DeploymentRule, strict=False)


class _Teller:
    def __init__(self, plan: SupervisePlan) -> None:
        self._plan = plan
        self._state: State | None = None
        self._shown = ""
        self._due: MonotonicMs | None = None

    def tell(self, line: str) -> Iterator[str]:
        yield line
        if not line or not line[0].isdigit():
            return
        when, *words = shlex.split(line)
        at = MonotonicMs(int(when.removesuffix("ms")))
        if words == ["begin"]:
            before, (state, effects) = None, begin(self._plan, at)
        else:
            assert self._state is not None, "a story starts with begin"
            event = read_event(at, words)
            assert not isinstance(event, TimerFired) or (self._due is not None and at >= self._due), line
            before, (state, effects) = self._state, step(self._plan, self._state, event)
        self._state = state
        yield from self._below(before, state, effects, at)

    def _below(self, before: State | None, state: State, effects: tuple[Effect, ...], at: MonotonicMs) -> Iterator[str]:
        for effect in effects:
            self._due = effect.at if isinstance(effect, WakeAt) else self._due
            yield f"    {show(effect)}"
        for sentence in tell(self._plan, before, state, at) if before else ():
            yield f"    | {sentence}"
        now = summary(state)
        if now != self._shown:
            yield f"    = {now}"
        self._shown = now


def read_event(at: MonotonicMs, words: list[str]) -> Event:
    """``server-exited writer-0#1 -11`` as the event."""
    kind, left = EVENTS[words[0]], words[1:]
    values: dict[str, Any] = {"at": at}
    for field in kind.__struct_fields__[1:]:
        if field in ("step", "alias"):
            values[field], _, launch = left.pop(0).partition("#")
            values["launch"] = int(launch)
        elif field in ("reasons", "found", "wanted"):
            values[field] = tuple(left.pop(0).split("|")) if left else ()
        elif field == "first":
            values[field] = _first_end(left.pop(0)) if left else None
        elif field != "launch":
            values[field] = left.pop(0)
    assert not left, f"too many words: {left}"
    return msgspec.convert(values, kind, strict=False)  # type: ignore[return-value]  # one of the union's structs


def _first_end(text: str) -> dict[str, str]:
    """``writer-0.r1@node-b=-9``: which process on which node ended first, and how."""
    place, _, code = text.rpartition("=")
    lane, _, node = place.partition("@")
    return {"lane": lane, "node": node, "code": code}


def show(effect: Effect) -> str:
    """An effect in the words of a story."""
    words = [str(effect.__struct_config__.tag)]
    given = {name: getattr(effect, name) for name in effect.__struct_fields__}
    launch = given.pop("launch", None)
    for value in given.values():
        if isinstance(value, tuple):
            words.append(f"[{' '.join(_launch(backend.step, backend.launch) for backend in value)}]")
        elif value is not None:
            words.append(str(value) if launch is None else _launch(value, launch))
            launch = None
    return " ".join(words)


def _launch(name: str, launch: int) -> str:
    return f"{name}#{launch}"


def summary(state: State) -> str:
    """What is so, on one line."""
    match state.phase:
        case Stopping(stage=stage):
            phase = f"stopping {stage}"
        case Finished(verdict=verdict):
            code = exit_code(verdict)
            return f"finished {verdict.__struct_config__.tag}: exit {code}, {attempt_state(verdict)}"
        case _:
            phase = "running"
    client = str(state.client.__struct_config__.tag)
    client = f"{client} {state.client.code}" if isinstance(state.client, Judging) else client
    units = [f"{_launch(unit.step, unit.launch)} {unit.life.__struct_config__.tag}" for unit in state.units]
    ends = [f"{_launch(end.alias, end.launch)} {end.life.__struct_config__.tag}" for end in state.endpoints]
    return f"{phase}, client {client}: {', '.join(units)}; {', '.join(ends)}"
