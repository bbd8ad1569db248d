"""Load from pages of metrics: real ones, broken ones, and counters over time."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.sample import Earlier, sample
from core.units import MonotonicMs
from core.vllm.metrics import Load, Reading, Unavailable, rates, read_page
from core.vllm.pulse import Pulse, felt, is_stalled

PAGES = Path(__file__).parents[1] / "facts" / "vllm_metrics"
SHORT = 'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_waiting{engine="0"} 2\n'


def at(ms: int) -> MonotonicMs:
    return MonotonicMs(ms)


def load(
    running: int = 1, made: int | None = 0, read: int = 0, done: int = 0, rejected: int | None = None, waiting: int = 0
) -> Load:
    return Load(
        running=running,
        waiting=waiting,
        generation_tokens=made,
        prompt_tokens=read,
        succeeded=done,
        rejected=rejected,
    )


def test_a_page_under_load() -> None:
    assert read_page((PAGES / "0.32-load.txt").read_text()) == Load(
        running=6,
        waiting=0,
        kv_cache_usage=0.0014650225857648635,
        prompt_tokens=263,
        generation_tokens=898,
        rejected=0,
        preempted=0,
        succeeded=3,
    )


def test_engines_are_summed_and_the_fullest_counts() -> None:
    assert read_page((PAGES / "0.32-dp2.txt").read_text()) == Load(
        running=3,
        waiting=0,
        kv_cache_usage=0.0003662556464412159,
        prompt_tokens=244,
        generation_tokens=667,
        rejected=0,
        preempted=0,
        succeeded=7,
    )


def test_names_before_0_12() -> None:
    assert read_page((PAGES / "0.11-one_engine.txt").read_text()) == Load(
        running=3,
        waiting=12,
        kv_cache_usage=0.75,
        prompt_tokens=9000,
        generation_tokens=12000,
        preempted=2,
        succeeded=42,
    )


def test_the_newer_of_two_names_counts() -> None:
    both = SHORT + "vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.2\n"
    assert read_page(both) == Load(running=1, waiting=2, kv_cache_usage=0.2)


def test_requests_by_reason_are_not_counted_again() -> None:
    by_reason = SHORT + 'vllm:num_requests_waiting_by_reason{reason="capacity"} 2\n'
    assert read_page(by_reason) == Load(running=1, waiting=2)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("", "has no vllm:num_requests_running and no vllm:num_requests_waiting"),
        ("<html>Bad Gateway</html>", "has no vllm:num_requests_running"),
        ('vllm:num_requests_running{engine="0"} 1\n', "has no vllm:num_requests_waiting"),
        (SHORT.replace("} 2", "} NaN"), "vllm:num_requests_waiting is nan"),
        (SHORT.replace("} 1", "} -1"), "vllm:num_requests_running is -1.0"),
        (SHORT.replace("} 1", "} many"), "cannot be read"),
        (SHORT.replace('"} 1', " 1"), "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_unavailable(page: str, why: str) -> None:
    reading = read_page(page)
    assert isinstance(reading, Unavailable)
    assert why in reading.why


@given(st.text() | st.lists(st.sampled_from(SHORT.splitlines())).map("\n".join), st.text(), st.text())
def test_no_text_raises(page: str, labels: str, value: str) -> None:
    assert read_page(page) is not None
    assert read_page(f"{SHORT}vllm:prompt_tokens_total{{{labels}}} {value}\n") is not None


def test_rates() -> None:
    found = rates(load(made=100, read=50, rejected=1), load(made=400, read=50, rejected=3), 2.0)
    assert found is not None
    assert (found.generation_tokens, found.prompt_tokens, found.rejected) == (150.0, 0.0, 1.0)


def test_a_counter_that_fell_began_anew() -> None:
    found = rates(load(made=1000), load(made=30), 10.0)
    assert found is not None
    assert found.generation_tokens == 3.0


def test_no_rate_from_nothing() -> None:
    assert rates(load(), load(), 0.0) is None
    found = rates(load(made=None), load(made=5), 1.0)
    assert found is not None
    assert (found.generation_tokens, found.rejected) == (None, None)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0.001, 1e6))
def test_rates_are_never_negative(before: int, after: int, seconds: float) -> None:
    found = rates(load(made=before), load(made=after), seconds)
    assert found is not None
    assert found.generation_tokens is not None
    assert found.generation_tokens >= 0


def _feel(readings: list[tuple[int, Reading]]) -> Pulse | None:
    pulse: Pulse | None = None
    for ms, reading in readings:
        pulse = felt(pulse, reading, at(ms))
    return pulse


def test_work_that_stands_still_is_stalled_after_patience() -> None:
    pulse = _feel([(0, load(made=7)), (1000, load(made=8)), (2000, load(made=8)), (61_000, load(made=8))])
    assert not is_stalled(pulse, at(60_999), 60_000)
    assert is_stalled(pulse, at(61_000), 60_000)


@pytest.mark.parametrize(
    "sign_of_life",
    [
        load(made=9),
        load(made=0),
        load(made=8, read=1),
        load(made=8, done=1),
        load(running=0, made=8),
        load(made=None),
        Unavailable(why="no answer"),
    ],
)
def test_whatever_moves_or_cannot_be_told_is_not_stalled(sign_of_life: Reading) -> None:
    pulse = _feel([(0, load(made=8)), (50_000, sign_of_life), (60_000, load(made=8))])
    assert not is_stalled(pulse, at(60_000), 60_000)


def test_a_server_that_does_not_count_is_never_stalled() -> None:
    pulse = _feel([(0, load(made=None)), (90_000, load(made=None))])
    assert not is_stalled(pulse, at(90_000), 60_000)


def test_a_sample_tells_the_load_and_how_fast_it_goes() -> None:
    earlier = Earlier(load=load(made=100), at=at(1000))
    taken = sample("m-0.1.0", load(running=4, made=150, waiting=2), at(3000), earlier, False)
    assert (taken.state, taken.running, taken.waiting) == ("fine", 4, 2)
    assert (taken.generation_tokens_per_s, taken.prompt_tokens_per_s, taken.rejected_per_s) == (25.0, 0.0, None)


def test_a_sample_of_the_unavailable_has_no_figures() -> None:
    taken = sample("m-0.1.0", Unavailable(why="ConnectError: refused"), at(5), None, False)
    assert (taken.state, taken.running, taken.why) == ("unavailable", None, "ConnectError: refused")
