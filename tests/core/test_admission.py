"""Tables: what is decided in situations that have been seen, and what is learnt from them."""

import pytest

from core.admission.answers import meaning_of
from core.admission.decide import Decision, Forward, Reject, Request, decide, is_serving
from core.admission.events import (
    AdmissionEvent,
    Answered,
    BackendsGiven,
    DrainAsked,
    Failed,
    Finished,
    LoadSampled,
    Started,
    TurnedAway,
)
from core.admission.observe import begin, observe, seen
from core.admission.state import Admission, Policy
from core.endpoint_spec import BackendAddress, LoadVerdict
from core.units import MonotonicMs, Port

POLICY = Policy(max_waiting=128, retry_after_seconds=1)
ASK = Request(authorized=True)


def at(ms: int) -> MonotonicMs:
    return MonotonicMs(ms)


def given(*ids: str) -> BackendsGiven:
    return BackendsGiven(
        backends=tuple(BackendAddress(id=name, url_host="10.0.0.1", port=Port(8000 + n)) for n, name in enumerate(ids))
    )


def after(*events: tuple[int, AdmissionEvent], backends: tuple[str, ...] = ("a", "b")) -> Admission:
    """Backends a and b have the serials 1 and 2."""
    state = observe(begin(POLICY, at(0)), given(*backends), at(0))
    for ms, event in events:
        state = observe(state, event, at(ms))
    return state


def sampled(name: str, waiting: int, verdict: LoadVerdict = "fine") -> LoadSampled:
    return LoadSampled(id=name, waiting=waiting, running=1, verdict=verdict)


def rejected(decision: Decision) -> tuple[int, int | None, str]:
    assert isinstance(decision, Reject)
    return decision.status, decision.retry_after_seconds, decision.reason


def states(state: Admission, ms: int) -> dict[str, str]:
    return {backend.id: backend.state for backend in seen(state, at(ms))}


@pytest.mark.parametrize(("waiting", "goes"), [(0, True), (127, True), (128, True), (129, False), (1000, False)])
def test_the_limit_of_waiting_requests_is_the_last_one_that_is_taken(waiting: int, goes: bool) -> None:
    decision = decide(after((0, sampled("a", waiting)), backends=("a",)), ASK, at(1))
    assert decision == (Forward(serial=1) if goes else Reject(status=429, retry_after_seconds=1, reason="full"))


def test_what_was_sent_since_the_sample_waits_too() -> None:
    state = after((0, sampled("a", 128)), (1, Started(serial=1)), backends=("a",))
    assert rejected(decide(state, ASK, at(2))) == (429, 1, "full")
    state = observe(state, Finished(serial=1), at(3))
    assert decide(state, ASK, at(4)) == Forward(serial=1)


def test_where_nobody_waits_what_was_sent_may_run_at_once() -> None:
    state = after((0, sampled("a", 0)), *[(1, Started(serial=1))] * 300, backends=("a",))
    assert decide(state, ASK, at(2)) == Forward(serial=1)


@pytest.mark.parametrize(
    ("verdict", "ms"), [("unavailable", 1), ("fine", POLICY.stale_ms + 1)], ids=["nobody could read", "too old"]
)
def test_without_fresh_figures_admission_is_open(verdict: LoadVerdict, ms: int) -> None:
    state = after((0, sampled("a", 500, verdict)), backends=("a",))
    assert decide(state, ASK, at(ms)) == Forward(serial=1)


def test_the_least_loaded_gets_it() -> None:
    state = after((0, Started(serial=1)), (0, Started(serial=1)), (0, Started(serial=2)))
    assert decide(state, ASK, at(1)) == Forward(serial=2)
    assert decide(observe(state, sampled("b", 5), at(1)), ASK, at(2)) == Forward(serial=1)


def test_equals_take_turns() -> None:
    state, went = after(backends=("a", "b", "c")), []
    for ms in range(6):
        decision = decide(state, ASK, at(ms))
        assert isinstance(decision, Forward)
        went.append(decision.serial)
        state = observe(
            observe(state, Started(serial=decision.serial), at(ms)), Finished(serial=decision.serial), at(ms)
        )
    assert went == [1, 2, 3, 1, 2, 3]


def test_all_full_is_429_and_the_first_to_have_room_gets_the_next() -> None:
    state = after(
        *[(0, Started(serial=n)) for n in (1, 1, 2, 2)],
        (1, TurnedAway(serial=1, retry_after_ms=5_000)),
        (1, TurnedAway(serial=2, retry_after_ms=5_000)),
    )
    assert rejected(decide(state, ASK, at(2))) == (429, 1, "full")
    assert states(state, 2) == {"a": "full", "b": "full"}
    assert decide(observe(state, Finished(serial=2), at(3)), ASK, at(4)) == Forward(serial=2)
    assert decide(state, ASK, at(5_001)) == Forward(serial=1)


def test_a_dead_one_is_left_out_then_tried_by_one_request_then_used_again() -> None:
    state = after((0, Started(serial=1)), (0, Failed(serial=1, reason="connection refused")), backends=("a",))
    assert states(state, 1) == {"a": "dead"}
    assert not is_serving(state, at(1))
    assert rejected(decide(state, ASK, at(249))) == (503, 10, "down")
    assert decide(state, ASK, at(250)) == Forward(serial=1)
    trial = observe(state, Started(serial=1), at(250))
    assert states(trial, 251) == {"a": "probation"}
    assert rejected(decide(trial, ASK, at(251))) == (503, 10, "down")
    assert decide(observe(trial, Answered(serial=1), at(260)), ASK, at(261)) == Forward(serial=1)
    assert decide(trial, ASK, at(250 + POLICY.trial_ms)) == Forward(serial=1)


def test_one_death_is_one_strike_however_many_requests_it_breaks() -> None:
    state = after(*[(0, Started(serial=1))] * 40, *[(1, Failed(serial=1, reason="broken off"))] * 40)
    assert decide(state, ASK, at(2)) == Forward(serial=2)
    assert [backend.strikes for backend in state.backends] == [1, 0]


def test_a_backend_that_keeps_failing_stays_out_longer_each_time() -> None:
    state, ms, waits = after(backends=("a",)), 0, []
    for _ in range(8):
        state = observe(observe(state, Started(serial=1), at(ms)), Failed(serial=1, reason="refused"), at(ms))
        back = next(later for later in range(ms, ms + 60_000, 50) if isinstance(decide(state, ASK, at(later)), Forward))
        waits.append(back - ms)
        ms = back
    assert waits == [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]


def test_a_backend_that_was_well_for_long_is_not_blamed_for_the_past() -> None:
    failed = (Started(serial=1), Failed(serial=1, reason="x"))
    state = after(*[(0, event) for event in failed], (300, Started(serial=1)), (310, Answered(serial=1)))
    soon = observe(state, failed[1], at(400))
    late = observe(state, failed[1], at(POLICY.forget_ms + 1))
    assert [soon.backends[0].strikes, late.backends[0].strikes] == [2, 1]


def test_stalled_is_out_until_the_sampler_says_otherwise() -> None:
    state = after((0, sampled("a", 3, "stalled")))
    assert {decide(state, ASK, at(ms)) for ms in range(5)} == {Forward(serial=2)}
    assert states(state, 1) == {"a": "stalled", "b": "alive"}
    alone = after((0, sampled("a", 3, "stalled")), backends=("a",))
    assert rejected(decide(alone, ASK, at(1))) == (503, 10, "down")
    assert decide(observe(alone, sampled("a", 3), at(2)), ASK, at(3)) == Forward(serial=1)


def test_an_outage_is_first_503_then_429() -> None:
    state = observe(after(), given(), at(1_000))
    assert rejected(decide(state, ASK, at(20_999))) == (503, 10, "down")
    assert rejected(decide(state, ASK, at(21_000))) == (429, 10, "down")
    back = observe(state, given("c"), at(31_000))
    assert decide(back, ASK, at(31_000)) == Forward(serial=3)
    again = observe(observe(back, Started(serial=3), at(40_000)), Failed(serial=3, reason="x"), at(40_000))
    assert rejected(decide(again, ASK, at(40_001))) == (503, 10, "down")


def test_three_repeats_of_a_503_outlast_the_patience() -> None:
    assert 3 * POLICY.down_retry_seconds * 1000 >= POLICY.patience_ms


def test_one_dead_and_one_full_is_full() -> None:
    state = after(
        (0, Started(serial=1)),
        (0, Failed(serial=1, reason="refused")),
        (0, Started(serial=2)),
        (0, TurnedAway(serial=2, retry_after_ms=1_000)),
    )
    assert rejected(decide(state, ASK, at(1))) == (429, 1, "full")


def test_who_has_had_it_is_not_asked_again() -> None:
    assert decide(after(), Request(authorized=True, tried=(1,)), at(0)) == Forward(serial=2)
    assert rejected(decide(after(), Request(authorized=True, tried=(1, 2)), at(0))) == (429, 1, "full")


def test_strangers_are_sent_away_before_anything_else() -> None:
    state = observe(after(), DrainAsked(), at(0))
    assert rejected(decide(state, Request(authorized=False), at(0))) == (401, None, "unauthorized")
    assert rejected(decide(state, ASK, at(0))) == (503, 1, "draining")
    assert not is_serving(state, at(0))


def test_new_backends_replace_old_ones_and_those_that_stay_are_not_disturbed() -> None:
    state = after((0, Started(serial=1)), (0, Started(serial=2)), (0, sampled("b", 7)))
    moved = observe(state, given("b", "b", "c"), at(1))
    assert [(b.id, b.serial, b.in_flight) for b in moved.backends] == [("b", 3, 0), ("c", 4, 0)]
    stays = observe(
        state, BackendsGiven(backends=(*given("a", "b").backends[1:], *given("x", "y", "c").backends[2:])), at(1)
    )
    assert [(b.id, b.serial, b.in_flight) for b in stays.backends] == [("b", 2, 1), ("c", 3, 0)]
    assert observe(stays, Finished(serial=1), at(2)) is stays


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
