"""Laws of the supervisor over any history at all. No mock: events are made up, effects are looked at."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec
import pytest
from hypothesis import given, settings

from core.codec import canonical_json
from core.supervise.change import alive, client_alive
from core.supervise.effects import (
    Backend,
    Effect,
    PublishReadiness,
    Rebind,
    ReleaseClient,
    Route,
    SignalClient,
    SignalEndpoint,
    SignalServer,
    StartClient,
    StartEndpoint,
    StartServer,
    WakeAt,
)
from core.supervise.events import Event, ResultChecked, TimerFired
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.state import (
    Booting,
    Closed,
    Ending,
    Finished,
    GivenUp,
    Judging,
    Listening,
    Opening,
    Prepared,
    Preparing,
    Ready,
    Rebinding,
    Running,
    State,
    Stopping,
    Unit,
    Waiting,
)
from core.supervise.step import begin, step
from core.supervise.story import tell
from core.supervise.verdict import Completed, NotJudged, Verdict
from core.units import MonotonicMs
from tests.core.supervise_plans import STRANGER, histories

STARTS = (StartClient, StartServer, StartEndpoint, Rebind, ReleaseClient)
History = tuple[SupervisePlan, list[Event]]
Turn = tuple[State, Event, State, tuple[Effect, ...]]


def turns(history: History) -> tuple[Turn, ...]:
    """Each event of a history with the state before, the state after, and what was to be done; once for all laws."""
    return _cached(history[0], tuple(history[1]))


def worked_out(plan: SupervisePlan, happened: Iterable[Event]) -> Iterator[Turn]:
    state, _ = begin(plan, MonotonicMs(0))
    for event in happened:
        before, (state, effects) = state, step(plan, state, event)
        yield before, event, state, effects


@lru_cache(maxsize=4)
def _cached(plan: SupervisePlan, happened: tuple[Event, ...]) -> tuple[Turn, ...]:
    return tuple(worked_out(plan, happened))


def everything_done(history: History) -> list[Effect]:
    return [*begin(history[0], MonotonicMs(0))[1], *(e for turn in turns(history) for e in turn[3])]


def verdict_of(state: State) -> Verdict | None:
    return state.phase.verdict if isinstance(state.phase, Stopping | Finished) else None


def any_runs(state: State) -> bool:
    ends = any(not isinstance(end.life, Closed) for end in state.endpoints)
    return client_alive(state) or ends or any(alive(unit) for unit in state.units)


def units_of(state: State, rule: DeploymentRule) -> list[Unit]:
    return [unit for unit in state.units if unit.step in rule.units]


def law_stopping_starts_nothing_and_the_first_verdict_stands(history: History) -> None:
    for before, _, after, effects in turns(history):
        if verdict_of(before) is not None:
            assert not [effect for effect in effects if isinstance(effect, STARTS)]
            assert verdict_of(after) == verdict_of(before)
        if isinstance(before.phase, Finished):
            assert (after, effects) == (before, ())


def law_finished_exactly_when_stopping_and_nothing_runs(history: History) -> None:
    for _, _, after, _ in turns(history):
        if isinstance(after.phase, Finished):
            assert not any_runs(after)
        if isinstance(after.phase, Stopping):
            assert any_runs(after)


def law_launches_are_started_once_and_count_up(history: History) -> None:
    done = everything_done(history)
    for kind in (StartServer, Rebind):
        seen: dict[str, int] = (
            {} if kind is StartServer else {u.step: 1 for u in begin(history[0], MonotonicMs(0))[0].units}
        )
        for effect in done:
            if isinstance(effect, StartServer | Rebind) and isinstance(effect, kind):
                assert effect.launch > seen.get(effect.step, 0), "no launch twice"
                seen[effect.step] = effect.launch
    opened: dict[str, int] = {}
    for effect in done:
        if isinstance(effect, StartEndpoint):
            assert effect.launch == opened.get(effect.alias, 0) + 1
            opened[effect.alias] = effect.launch
    assert sum(isinstance(effect, StartClient) for effect in done) == 1


def law_a_launch_begins_only_after_the_last_one_is_gone(history: History) -> None:
    plan, happened = history
    for before, _, after, effects in turns((plan, happened)):
        for old, new in zip(before.units, after.units, strict=True):
            assert new.launch - old.launch in (0, 1)
            if new.launch > old.launch:
                assert isinstance(new.life, Waiting), "gone, and waiting for its turn"
        for effect in effects:
            if isinstance(effect, StartServer):
                old = next(unit for unit in before.units if unit.step == effect.step)
                assert isinstance(old.life, Rebinding)
                assert old.launch == effect.launch


def law_restarts_are_bounded_by_the_rule(history: History) -> None:
    plan, _ = history
    for _, _, after, _ in turns(history):
        for rule in plan.deployments:
            for unit in units_of(after, rule):
                assert unit.restarts <= (rule.max_restarts if rule.policy == "restart" else 0)
                assert unit.port_retries <= plan.port_retries
                assert unit.launch == 1 + unit.restarts + unit.port_retries
        assert all(end.launch <= plan.endpoint_restarts + 1 for end in after.endpoints)


def law_the_client_is_released_once_and_only_when_all_is_there(history: History) -> None:
    plan, _ = history
    released = 0
    for before, _, after, effects in turns(history):
        if any(isinstance(effect, ReleaseClient) for effect in effects):
            released += 1
            assert isinstance(before.client, Preparing | Prepared)
            assert all(isinstance(end.life, Listening) for end in after.endpoints)
            for rule in plan.deployments:
                units = units_of(after, rule)
                rest = [unit for unit in units if not isinstance(unit.life, Ready)]
                assert len(units) - len(rest) >= rule.min_ready
                assert all(unit.restarts or isinstance(unit.life, GivenUp) for unit in rest), "the rest has failed"
        elif isinstance(after.client, Prepared) and isinstance(after.phase, Running):
            waits = [end for end in after.endpoints if isinstance(end.life, Opening)]
            for rule in plan.deployments:
                ready = sum(isinstance(unit.life, Ready) for unit in units_of(after, rule))
                waits += after.endpoints if ready < len(rule.units) else ()
            assert waits, "nobody waits for nothing"
    assert released <= 1


def law_endpoints_know_exactly_who_is_ready(history: History) -> None:
    plan, _ = history
    routed: dict[str, tuple[Backend, ...]] = {rule.alias: () for rule in plan.deployments}
    listening: set[tuple[str, int]] = set()
    for _, _, after, effects in turns(history):
        told = {effect.alias: effect.backends for effect in effects if isinstance(effect, Route)}
        routed |= {str(alias): backends for alias, backends in told.items()}
        fresh = {(end.alias, end.launch) for end in after.endpoints if isinstance(end.life, Listening)} - listening
        listening |= fresh
        for rule in plan.deployments:
            ready = [unit for unit in units_of(after, rule) if isinstance(unit.life, Ready)]
            assert routed[rule.alias] == tuple(Backend(step=u.step, launch=u.launch) for u in ready)
        for alias, _ in fresh:
            assert alias in told or not routed[alias], "a new endpoint knows nobody"


def law_published_readiness_only_grows_and_says_what_is_so(history: History) -> None:
    revisions = [0]
    for _, _, after, effects in turns(history):
        published = [effect for effect in effects if isinstance(effect, PublishReadiness)]
        assert bool(published) == any(isinstance(effect, Route) for effect in effects)
        for effect in published:
            ready = {(unit.step, unit.launch) for unit in after.units if isinstance(unit.life, Ready)}
            assert {(backend.step, backend.launch) for backend in effect.ready} == ready
            revisions.append(effect.revision)
    assert revisions == list(range(len(revisions)))


def law_who_waits_has_a_timer(history: History) -> None:
    pending: MonotonicMs | None = wake_of(begin(history[0], MonotonicMs(0))[1])
    for before, event, after, effects in turns(history):
        if isinstance(before.phase, Finished):
            break
        pending = None if isinstance(event, TimerFired) else pending
        pending = wake_of(effects) or pending
        waits = (
            isinstance(after.phase, Stopping)
            or any(isinstance(unit.life, Ending) for unit in after.units)
            or isinstance(after.client, Preparing)
            or any(isinstance(unit.life, Waiting | Rebinding | Booting) for unit in after.units)
            or any(isinstance(end.life, Opening) for end in after.endpoints)
        )
        if waits and not isinstance(after.phase, Finished):
            assert pending is not None
            assert pending == after.wake_at, "the shell's timer is the one that the state knows"


def wake_of(effects: tuple[Effect, ...]) -> MonotonicMs | None:
    return next((effect.at for effect in reversed(effects) if isinstance(effect, WakeAt)), None)


def law_signals_go_to_what_runs_and_in_order(history: History) -> None:
    for before, _, after, effects in turns(history):
        for effect in effects:
            match effect:
                case SignalClient():
                    assert client_alive(before)
                case SignalEndpoint(alias=alias, launch=launch):
                    end = next(end for end in before.endpoints if end.alias == alias)
                    assert end.launch == launch
                    assert not isinstance(end.life, Closed)
                    if isinstance(after.phase, Stopping):
                        assert not client_alive(after), "endpoints after the client"
                case SignalServer(step=name, launch=launch):
                    unit = next(unit for unit in before.units if unit.step == name)
                    assert unit.launch == launch
                    assert alive(unit)
                    if isinstance(after.phase, Stopping) and not has_failed(after, name):
                        assert not client_alive(after), "servers that serve after the client"
                        assert all(isinstance(end.life, Closed) for end in after.endpoints), "and after endpoints"
                case _:
                    pass


def has_failed(state: State, name: str) -> bool:
    return any(unit.step == name and isinstance(unit.life, Ending) for unit in state.units)


def law_strangers_and_launches_that_are_not_there_change_nothing(history: History) -> None:
    for before, event, after, effects in turns(history):
        name = getattr(event, "step", getattr(event, "alias", None))
        launches = {unit.step: unit.launch for unit in before.units} | {e.alias: e.launch for e in before.endpoints}
        if name == STRANGER or (name is not None and launches[name] != getattr(event, "launch", None)):
            assert (after, effects) == (before, ())


def law_states_are_plain_data_and_replay_gives_the_same(history: History) -> None:
    """msgspec checks types only when it decodes: a round trip is the run-time type check."""
    plan, happened = history
    states = [after for _, _, after, _ in turns(history)]
    for state in states:
        assert msgspec.json.decode(canonical_json(state), type=State) == state
    journal = [msgspec.json.decode(canonical_json(event), type=Event) for event in happened]
    assert [after for _, _, after, _ in worked_out(plan, journal)] == states


def law_every_end_is_told_once(history: History) -> None:
    plan, _ = history
    told = [line for before, event, after, _ in turns(history) for line in tell(plan, before, after, event.at)]
    final = [after for _, _, after, _ in turns(history)][-1:]
    ended = bool(final) and isinstance(final[0].phase, Finished)
    stopping = bool(final) and verdict_of(final[0]) is not None
    assert sum(line.startswith(("ending: ", "ended: ")) for line in told) == stopping
    assert (told[-1:] == ["everything has ended"]) <= ended


def law_a_result_that_is_looked_at_is_not_lost_to_servers(history: History) -> None:
    for before, event, after, _ in turns(history):
        if isinstance(before.client, Judging) and isinstance(before.phase, Running):
            hurry = before.client.hurry
            hurried = hurry is not None and event.at >= hurry.until
            if isinstance(event, ResultChecked):
                complete = before.client.code == 0 and not event.reasons
                assert (verdict_of(after) == Completed()) == complete, "whatever was asked for meanwhile"
            elif isinstance(event, TimerFired) and (hurried or event.at >= before.client.deadline):
                too_late = NotJudged(after_ms=history[0].judge_timeout_ms)
                assert verdict_of(after) == (hurry.otherwise if hurry and hurried else too_late)
            else:
                assert isinstance(after.phase, Running)
        if isinstance(after.client, Judging) and after.client.hurry and isinstance(after.phase, Running):
            assert after.wake_at is not None
            assert after.wake_at <= after.client.hurry.until
            kept = isinstance(before.client, Judging) and before.client.hurry
            assert kept in (None, False, after.client.hurry), "the first wish stands"


def law_a_timer_leaves_nothing_due(history: History) -> None:
    """Else the shell's loop would run hot."""
    for _, event, after, _ in turns(history):
        if isinstance(event, TimerFired) and after.wake_at is not None:
            assert after.wake_at > event.at


def law_kill_comes_only_after_term_and_the_grace(history: History) -> None:
    plan, _ = history
    asked: dict[tuple[object, ...], int] = {}
    for _, event, after, effects in turns(history):
        for effect in effects:
            if not isinstance(effect, SignalClient | SignalServer | SignalEndpoint):
                continue
            target = tuple(getattr(effect, name, None) for name in ("step", "alias", "launch"))
            if effect.signal == "TERM":
                asked.setdefault(target, event.at)
            elif isinstance(effect, SignalEndpoint) and isinstance(after.phase, Running):
                assert event.at >= plan.prepare_timeout_ms, "it never listened: there is nothing to end gently"
            else:
                assert event.at >= asked[target] + plan.grace_ms


LAWS = [law for name, law in sorted(globals().items()) if name.startswith("law_")]


@given(histories())
@settings(max_examples=80)
def test_any_history_at_all_keeps_the_laws(history: History) -> None:
    keeps_the_laws(history)


@pytest.mark.slow
@given(histories())
@settings(max_examples=600)
def test_many_more_histories_keep_the_laws(history: History) -> None:
    keeps_the_laws(history)


def keeps_the_laws(history: History) -> None:
    assert len(LAWS) == 16
    for law in LAWS:
        law(history)
