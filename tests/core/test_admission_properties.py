"""Laws of admission, over any history at all."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core.admission.decision import Forward
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
from core.admission.rotation import rotation_of, unfit
from core.admission.state import Admission, Out, Policy, penalty_ms, standing
from core.codec import canonical_json
from core.endpoint_spec import BackendAddress
from core.units import MonotonicMs, Port
from tests.core.admission_world import ASK, Known, start

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
        in_flight=st.just(0),
    ),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 3_000), EVENTS), max_size=40)
POLICIES = st.builds(Policy, max_waiting=st.none() | st.integers(0, 4), retry_after_seconds=st.just(1))


def history_of(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> list[tuple[Known, MonotonicMs]]:
    now = 0
    known = [(start(policy).learn(BackendsGiven(backends=START), now), MonotonicMs(now))]
    for pause, event in history:
        now += pause
        known.append((known[-1][0].learn(event, now), MonotonicMs(now)))
    return known


START = tuple(BackendAddress(id=name, url_host="127.0.0.1", port=Port(8000)) for name in "abc")


@given(POLICIES, HISTORIES)
def test_a_request_goes_where_it_can_be_served_whenever_that_is_somewhere(
    policy: Policy, history: list[tuple[int, AdmissionEvent]]
) -> None:
    for known, now in history_of(policy, history):
        decision, state = known.decide(ASK, now), known.state
        both = zip(state.backends, known.in_flight(), strict=True)
        stand = {backend.serial: standing(policy, backend, busy, now) for backend, busy in both}
        if isinstance(decision, Forward):
            assert stand[decision.serial] in ("alive", "probation")
            assert "alive" in stand.values() or stand[decision.serial] == "probation"
        else:
            assert "alive" not in stand.values()
            assert decision.status == 429 or "full" not in stand.values()
            assert decision.retry_after_seconds is not None


@given(POLICIES, HISTORIES)
def test_serials_are_never_used_twice_and_types_hold(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> None:
    for known, _ in history_of(policy, history):
        state = known.state
        assert len({backend.serial for backend in state.backends}) == len(state.backends)
        assert msgspec.json.decode(canonical_json(state), type=Admission) == state


@given(POLICIES, HISTORIES, SERIALS)
def test_what_is_out_stays_out_for_a_bounded_time(
    policy: Policy, history: list[tuple[int, AdmissionEvent]], serial: int
) -> None:
    for known, now in history_of(policy, history):
        for backend in known.state.backends:
            if isinstance(backend.health, Out):
                assert backend.health.until - now <= max(policy.longest_penalty_ms, policy.trial_ms)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_penalties_grow_and_are_bounded(one: int, more: int) -> None:
    policy = Policy(max_waiting=None, retry_after_seconds=1)
    assert penalty_ms(policy, one) <= penalty_ms(policy, one + more) <= policy.longest_penalty_ms
    assert penalty_ms(policy, one) > 0


@given(POLICIES, HISTORIES, SERIALS)
def test_strangers_change_nothing(policy: Policy, history: list[tuple[int, AdmissionEvent]], serial: int) -> None:
    known, now = history_of(policy, history)[-1]
    stranger = known.state.next_serial + serial
    for event in (Started(serial=stranger), Finished(serial=stranger), Failed(serial=stranger, reason="x")):
        assert known.learn(event, now).state is known.state


@given(POLICIES, HISTORIES)
def test_what_a_fit_backend_does_well_is_no_news(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> None:
    for known, now in history_of(policy, history):
        changing = unfit(known.state)
        for backend in known.state.backends:
            for event in (
                Started(serial=backend.serial),
                Answered(serial=backend.serial),
                Finished(serial=backend.serial),
            ):
                if backend.serial not in changing:
                    assert known.learn(event, now).state is known.state


@given(POLICIES, HISTORIES, st.integers(0, 30_000))
def test_a_rotation_holds_until_it_says(policy: Policy, history: list[tuple[int, AdmissionEvent]], later: int) -> None:
    known, now = history_of(policy, history)[-1]
    rotation = rotation_of(known.state, now)
    then = min(MonotonicMs(now + later), MonotonicMs(rotation.until - 1))
    assert rotation_of(known.state, then) == rotation
    if rotation.until < now + 100_000:
        assert rotation_of(known.state, rotation.until).until > rotation.until


@given(POLICIES, HISTORIES, st.integers(0, 40))
def test_a_request_goes_to_the_least_loaded(
    policy: Policy, history: list[tuple[int, AdmissionEvent]], turn: int
) -> None:
    for known, now in history_of(policy, history):
        decision = known._replace(turn=turn).decide(ASK, now)
        if isinstance(decision, Forward):
            rotation, busy = rotation_of(known.state, now), known.in_flight()
            loads = [
                count + waiting if count <= limit else None
                for count, waiting, limit in zip(busy, rotation.waiting, rotation.limits, strict=True)
            ]
            assert loads[decision.place] == min(load for load in loads if load is not None)
            assert known.state.backends[decision.place].serial == decision.serial


@given(POLICIES, HISTORIES)
def test_a_draining_endpoint_forwards_nothing(policy: Policy, history: list[tuple[int, AdmissionEvent]]) -> None:
    known, now = history_of(policy, history)[-1]
    drained = known.learn(DrainAsked(), now)
    assert not isinstance(drained.decide(ASK, now), Forward)
    assert len(drained.states(now)) == len(drained.state.backends)
