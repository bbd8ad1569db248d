"""Lengths of time in the two spellings of run files."""

import pytest

from core.config.durations import duration_ms, time_limit_s


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("0m", 0), ("60s", 60), ("15m", 900), ("1h", 3600), ("2d", 172_800)]
)
def test_durations(text: str, seconds: int) -> None:
    assert duration_ms(text) == seconds * 1000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("03:55:00", 14_100), ("00:00:01", 1), ("100:00:00", 360_000), ("1-12:00:00", 129_600), ("0-00:05:00", 300)],
)
def test_time_limits(text: str, seconds: int) -> None:
    assert time_limit_s(text) == seconds
