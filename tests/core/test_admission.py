"""Tables: what is decided in situations that have been seen, and what is learnt from them."""

import pytest

from core.admission.answers import meaning_of
from core.admission.decide import FEW, Request, is_serving
from core.admission.decision import Decision, Forward, Reject
from core.admission.events import (
    AdmissionEvent,
    Answered,
    BackendsGiven,
    DrainAsked,
    Failed,
    Finished,
    Started,
    TurnedAway,
)
from core.admission.rotation import ANY, rotation_of, unfit
from core.admission.state import Policy
from core.endpoint_spec import BackendAddress, LoadVerdict
from core.units import MonotonicMs, Port
from tests.core.admission_world import ASK, Known, sampled, start

POLICY = Policy(max_waiting=128, retry_after_seconds=1)


def at(ms: int) -> MonotonicMs:
    return MonotonicMs(ms)


def given(*ids: str) -> BackendsGiven:
    return BackendsGiven(
        backends=tuple(BackendAddress(id=name, url_host="10.0.0.1", port=Port(8000 + n)) for n, name in enumerate(ids))
    )


def after(*events: tuple[int, AdmissionEvent], backends: tuple[str, ...] = ("a", "b")) -> Known:
    """Backends a and b have the serials 1 and 2."""
    known = start(POLICY).learn(given(*backends), 0)
    for ms, event in events:
        known = known.learn(event, ms)
    return known


def to(serial: int, place: int | None = None) -> Forward:
    """Backends are in the order of their serials, as long as none is replaced."""
    return Forward(place=serial - 1 if place is None else place, serial=serial)


def rejected(decision: Decision) -> tuple[int, int | None, str]:
    assert isinstance(decision, Reject)
    return decision.status, decision.retry_after_seconds, decision.reason


@pytest.mark.parametrize(("waiting", "goes"), [(0, True), (127, True), (128, True), (129, False), (1000, False)])
def test_the_limit_of_waiting_requests_is_the_last_one_that_is_taken(waiting: int, goes: bool) -> None:
    decision = after((0, sampled("a", waiting)), backends=("a",)).decide(ASK, 1)
    assert decision == (to(1) if goes else Reject(status=429, retry_after_seconds=1, reason="full"))


def test_what_was_sent_since_the_sample_waits_too() -> None:
    state = after((0, sampled("a", 128)), (1, Started(serial=1)), backends=("a",))
    assert rejected(state.decide(ASK, 2)) == (429, 1, "full")
    state = state.learn(Finished(serial=1), 3)
    assert state.decide(ASK, 4) == to(1)


def test_where_nobody_waits_what_was_sent_may_run_at_once() -> None:
    state = after((0, sampled("a", 0)), *[(1, Started(serial=1))] * 300, backends=("a",))
    assert state.decide(ASK, 2) == to(1)


@pytest.mark.parametrize(
    ("verdict", "ms"), [("unavailable", 1), ("fine", POLICY.stale_ms + 1)], ids=["nobody could read", "too old"]
)
def test_without_fresh_figures_admission_is_open(verdict: LoadVerdict, ms: int) -> None:
    state = after((0, sampled("a", 500, verdict)), backends=("a",))
    assert state.decide(ASK, ms) == to(1)


def test_the_least_loaded_gets_it() -> None:
    state = after((0, Started(serial=1)), (0, Started(serial=1)), (0, Started(serial=2)))
    assert state.decide(ASK, 1) == to(2)
    assert state.learn(sampled("b", 5), 1).decide(ASK, 2) == to(1)


def test_where_fewer_wait_is_preferred_also_without_a_limit() -> None:
    known = start(Policy(max_waiting=None, retry_after_seconds=1)).learn(given("a", "b"), 0)
    assert known.learn(sampled("a", 5), 1).decide(ASK, 2) == to(2)


def test_equals_take_turns() -> None:
    state, went = after(backends=("a", "b", "c")), []
    for ms in range(6):
        decision = state.decide(ASK, ms)
        assert isinstance(decision, Forward)
        went.append(decision.serial)
        state = state.learn(Started(serial=decision.serial), ms).learn(Finished(serial=decision.serial), ms)
    assert went == [1, 2, 3, 1, 2, 3]


def test_all_full_is_429_and_the_first_to_have_room_gets_the_next() -> None:
    state = after(
        *[(0, Started(serial=n)) for n in (1, 1, 2, 2)],
        (1, TurnedAway(serial=1, retry_after_ms=5_000)),
        (1, TurnedAway(serial=2, retry_after_ms=5_000)),
    )
    assert rejected(state.decide(ASK, 2)) == (429, 1, "full")
    assert state.states(2) == {"a": "full", "b": "full"}
    assert state.learn(Finished(serial=2), 3).decide(ASK, 4) == to(2)
    assert state.decide(ASK, 5_001) == to(1)


def test_a_dead_one_is_left_out_then_tried_by_one_request_then_used_again() -> None:
    state = after((0, Started(serial=1)), (0, Failed(serial=1, reason="connection refused")), backends=("a",))
    assert state.states(1) == {"a": "dead"}
    assert not is_serving(state.state, at(1))
    assert rejected(state.decide(ASK, 249)) == (503, 10, "down")
    assert state.decide(ASK, 250) == to(1)
    trial = state.learn(Started(serial=1), 250)
    assert trial.states(251) == {"a": "probation"}
    assert rejected(trial.decide(ASK, 251)) == (503, 10, "down")
    assert trial.learn(Answered(serial=1), 260).decide(ASK, 261) == to(1)
    assert trial.decide(ASK, 250 + POLICY.trial_ms) == to(1)


def test_one_death_is_one_strike_however_many_requests_it_breaks() -> None:
    state = after(*[(0, Started(serial=1))] * 40, *[(1, Failed(serial=1, reason="broken off"))] * 40)
    assert state.decide(ASK, 2) == to(2)
    assert [backend.strikes for backend in state.state.backends] == [1, 0]


def test_a_backend_that_keeps_failing_stays_out_longer_each_time() -> None:
    state, ms, waits = after(backends=("a",)), 0, []
    for _ in range(8):
        state = state.learn(Started(serial=1), ms).learn(Failed(serial=1, reason="refused"), ms)
        back = next(later for later in range(ms, ms + 60_000, 50) if isinstance(state.decide(ASK, later), Forward))
        waits.append(back - ms)
        ms = back
    assert waits == [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]


def test_a_backend_that_was_well_for_long_is_not_blamed_for_the_past() -> None:
    failed = (Started(serial=1), Failed(serial=1, reason="x"))
    state = after(*[(0, event) for event in failed], (300, Started(serial=1)), (310, Answered(serial=1)))
    soon = state.learn(failed[1], 400)
    late = state.learn(failed[1], POLICY.forget_ms + 1)
    assert [soon.state.backends[0].strikes, late.state.backends[0].strikes] == [2, 1]


def test_stalled_is_out_until_the_sampler_says_otherwise() -> None:
    state = after((0, sampled("a", 3, "stalled")))
    assert {state.decide(ASK, ms) for ms in range(5)} == {to(2)}
    assert state.states(1) == {"a": "stalled", "b": "alive"}
    alone = after((0, sampled("a", 3, "stalled")), backends=("a",))
    assert rejected(alone.decide(ASK, 1)) == (503, 10, "down")
    assert alone.learn(sampled("a", 3), 2).decide(ASK, 3) == to(1)


def test_an_outage_is_first_503_then_429() -> None:
    state = after().learn(given(), 1_000)
    assert rejected(state.decide(ASK, 20_999)) == (503, 10, "down")
    assert rejected(state.decide(ASK, 21_000)) == (429, 10, "down")
    back = state.learn(given("c"), 31_000)
    assert back.decide(ASK, 31_000) == to(3, place=0)
    again = back.learn(Started(serial=3), 40_000).learn(Failed(serial=3, reason="x"), 40_000)
    assert rejected(again.decide(ASK, 40_001)) == (503, 10, "down")


def test_three_repeats_of_a_503_outlast_the_patience() -> None:
    assert 3 * POLICY.down_retry_seconds * 1000 >= POLICY.patience_ms


def test_one_dead_and_one_full_is_full() -> None:
    state = after(
        (0, Started(serial=1)),
        (0, Failed(serial=1, reason="refused")),
        (0, Started(serial=2)),
        (0, TurnedAway(serial=2, retry_after_ms=1_000)),
    )
    assert rejected(state.decide(ASK, 1)) == (429, 1, "full")


def test_who_has_had_it_is_not_asked_again() -> None:
    assert after().decide(Request(authorized=True, tried=(1,)), 0) == to(2)
    assert rejected(after().decide(Request(authorized=True, tried=(1, 2)), 0)) == (429, 1, "full")


def test_strangers_are_sent_away_before_anything_else() -> None:
    state = after().learn(DrainAsked(), 0)
    assert rejected(state.decide(Request(authorized=False), 0)) == (401, None, "unauthorized")
    assert rejected(state.decide(ASK, 0)) == (503, 1, "draining")
    assert not is_serving(state.state, at(0))


def test_new_backends_replace_old_ones_and_those_that_stay_are_not_disturbed() -> None:
    state = after((0, Started(serial=1)), (0, Started(serial=2)), (0, sampled("b", 7)))
    moved = state.learn(given("b", "b", "c"), 1)
    assert [(b.id, b.serial) for b in moved.state.backends] == [("b", 3), ("c", 4)]
    assert moved.in_flight() == [0, 0]
    stays = state.learn(
        BackendsGiven(backends=(*given("a", "b").backends[1:], *given("x", "y", "c").backends[2:])), at(1)
    )
    assert [(b.id, b.serial) for b in stays.state.backends] == [("b", 2), ("c", 3)]
    assert stays.in_flight() == [1, 0]
    assert stays.learn(Finished(serial=1), 2).state is stays.state


def test_many_are_evenly_loaded_though_few_are_looked_at() -> None:
    names = tuple(f"s{n}" for n in range(10 * FEW))
    known = after(backends=names)
    for _ in range(8 * len(names)):
        _, known = known.ask(0)
    assert max(known.in_flight()) - min(known.in_flight()) <= 1
    waits = known.learn(sampled("s0", 1), 1)
    for _ in range(8 * len(names)):
        _, waits = waits.ask(2)
    assert max(waits.in_flight()) - min(waits.in_flight()) <= 2


def test_one_that_takes_is_found_among_many_that_do_not() -> None:
    names = tuple(f"s{n}" for n in range(10 * FEW))
    known = after(*[(0, sampled(name, 500)) for name in names[:-1]], backends=names)
    assert known.decide(ASK, 1) == to(len(names))


def test_a_rotation_of_fit_backends_holds_until_something_happens() -> None:
    rotation = rotation_of(after().state, at(5))
    assert (rotation.is_plain, unfit(after().state), rotation.limits) == (True, (), (ANY, ANY))
    assert rotation.until > at(10**12)


def test_a_rotation_ends_when_a_penalty_a_sample_or_the_patience_does() -> None:
    dead = after((100, Failed(serial=1, reason="refused")))
    assert (rotation_of(dead.state, at(101)).until, unfit(dead.state)) == (350, (1,))
    fresh = after((100, sampled("a", 1)))
    assert rotation_of(fresh.state, at(101)).until == 100 + POLICY.stale_ms + 1
    down = start(POLICY).learn(given(), 0)
    assert rotation_of(down.state, at(1)).until == POLICY.patience_ms


@pytest.mark.parametrize(
    ("status", "body", "meaning"),
    [
        (200, b"queue full", "answer"),
        (400, b"", "answer"),
        (429, b"", "full"),
        (503, b'{"error":{"message":"QueueOverflowError: queue overflow"}}', "full"),
        (503, b'{"error":"queue full"}', "full"),
        (503, b"The server is Overloaded", "full"),
        (503, b'{"error":"engine dead"}', "dead"),
        (503, b"EngineDeadError: EngineCore encountered an issue, requests in queue are lost", "dead"),
        (503, b"", "dead"),
        (500, b"QueueOverflowError", "full"),
        (500, b"EngineDeadError: EngineCore encountered an issue.", "dead"),
        (500, b"division by zero in my queue plug-in", "answer"),
        (502, b"queue full", "answer"),
    ],
)
def test_what_a_refusal_means(status: int, body: bytes, meaning: str) -> None:
    assert meaning_of(status, body) == meaning
