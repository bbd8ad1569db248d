"""Laws of admission, over any history at all."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core.admission.decide import Forward, Request, decide
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
from core.admission.state import Admission, Out, Policy, penalty_ms, standing
from core.codec import canonical_json
from core.endpoint_spec import BackendAddress
from core.units import MonotonicMs, Port

SERIALS = st.integers(1, 6)
NAMES = st.sampled_from("abcd")
ADDRESSES = st.builds(
    BackendAddress, id=NAMES, url_host=st.just("127.0.0.1"), port=st.sampled_from([Port(8000), Port(8001)])
)
EVENTS: st.SearchStrategy[AdmissionEvent] = st.one_of(
    st.builds(Started, serial=SERIALS),
    st.builds(Answered, serial=SERIALS),
    st.builds(Finished, serial=SERIALS),
    st.builds(TurnedAway, serial=SERIALS, retry_after_ms=st.integers(-1, 5_000)),
    st.builds(Failed, serial=SERIALS, reason=st.just("refused")),
    st.builds(BackendsGiven, backends=st.lists(ADDRESSES, max_size=4).map(tuple)),
    st.builds(
        LoadSampled,
        id=NAMES,
        waiting=st.integers(0, 6),
        running=st.integers(0, 6),
        verdict=st.sampled_from(["fine", "stalled", "unavailable"]),
    ),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 3_000), EVENTS), max_size=40)
POLICIES = st.builds(Policy, max_waiting=st.none() | st.integers(0, 4), retry_after_seconds=st.just(1))
ASK = Request(authorized=True)


def history_of(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> list[tuple[Admission, MonotonicMs]]:
    now = MonotonicMs(0)
    states = [(observe(begin(policy, now), BackendsGiven(backends=START), now), now)]
    for pause, event in history:
        now = MonotonicMs(now + pause)
        states.append((observe(states[-1][0], event, now), now))
    return states


START = tuple(BackendAddress(id=name, url_host="127.0.0.1", port=Port(8000)) for name in "abc")


@given(POLICIES, HISTORIES)
def test_a_request_goes_where_it_can_be_served_whenever_that_is_somewhere(
    policy: Policy, history: list[tuple[int, AdmissionEvent]]
) -> None:
    for state, now in history_of(policy, history):
        decision = decide(state, ASK, now)
        stand = {backend.serial: standing(policy, backend, now) for backend in state.backends}
        if isinstance(decision, Forward):
            assert stand[decision.serial] in ("alive", "probation")
            assert "alive" in stand.values() or stand[decision.serial] == "probation"
        else:
            assert "alive" not in stand.values()
            assert decision.status == 429 or "full" not in stand.values()
            assert decision.retry_after_seconds is not None


@given(POLICIES, HISTORIES)
def test_counts_are_never_negative_and_types_hold(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> None:
    for state, _ in history_of(policy, history):
        assert all(backend.in_flight >= 0 for backend in state.backends)
        assert len({backend.serial for backend in state.backends}) == len(state.backends)
        assert msgspec.json.decode(canonical_json(state), type=Admission) == state


@given(POLICIES, HISTORIES, SERIALS)
def test_what_is_out_stays_out_for_a_bounded_time(
    policy: Policy, history: list[tuple[int, AdmissionEvent]], serial: int
) -> None:
    for state, now in history_of(policy, history):
        for backend in state.backends:
            if isinstance(backend.health, Out):
                assert backend.health.until - now <= max(policy.longest_penalty_ms, policy.trial_ms)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_penalties_grow_and_are_bounded(one: int, more: int) -> None:
    policy = Policy(max_waiting=None, retry_after_seconds=1)
    assert penalty_ms(policy, one) <= penalty_ms(policy, one + more) <= policy.longest_penalty_ms
    assert penalty_ms(policy, one) > 0


@given(POLICIES, HISTORIES, SERIALS)
def test_strangers_change_nothing(policy: Policy, history: list[tuple[int, AdmissionEvent]], serial: int) -> None:
    state, now = history_of(policy, history)[-1]
    stranger = state.next_serial + serial
    for event in (Started(serial=stranger), Finished(serial=stranger), Failed(serial=stranger, reason="x")):
        assert observe(state, event, now) is state


@given(POLICIES, HISTORIES)
def test_balanced_histories_leave_nothing_in_flight(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> None:
    state, now = history_of(policy, history)[-1]
    before = {backend.serial: backend.in_flight for backend in state.backends}
    for _ in range(5):
        decision = decide(state, ASK, now)
        if isinstance(decision, Forward):
            state = observe(state, Started(serial=decision.serial), now)
            assert sum(backend.in_flight for backend in state.backends) == sum(before.values()) + 1
            state = observe(state, Finished(serial=decision.serial), now)
    assert {backend.serial: backend.in_flight for backend in state.backends} == before


@given(POLICIES, HISTORIES)
def test_a_draining_endpoint_forwards_nothing(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> None:
    state, now = history_of(policy, history)[-1]
    drained = observe(state, DrainAsked(), now)
    assert not isinstance(decide(drained, ASK, now), Forward)
    assert len(seen(drained, now)) == len(state.backends)
