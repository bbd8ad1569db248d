"""One line of `samples.jsonl`: how loaded a server was at a moment."""

import msgspec

from core.endpoint_spec import LoadVerdict
from core.units import MonotonicMs
from core.vllm.metrics import Load, Reading, rates


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is the server's name in the events of the endpoint; `at` is on the clock of the journal, in milliseconds."""

    at: MonotonicMs
    id: str
    state: LoadVerdict
    running: int | None = None
    waiting: int | None = None
    kv_cache_usage: float | None = None
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    rejected_per_s: float | None = None
    why: str | None = None


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A load that was kept before: speeds are counted from there."""

    load: Load
    at: MonotonicMs


def sample(name: str, reading: Reading, at: MonotonicMs, earlier: Earlier | None, stalled: bool) -> Sample:
    """What is kept of a reading."""
    if not isinstance(reading, Load):
        return Sample(at=at, id=name, state="unavailable", why=reading.why)
    speeds = rates(earlier.load, reading, (at - earlier.at) / 1000) if earlier else None
    return Sample(
        at=at,
        id=name,
        state="stalled" if stalled else "fine",
        running=reading.running,
        waiting=reading.waiting,
        kv_cache_usage=_short(reading.kv_cache_usage, 4),
        prompt_tokens_per_s=_short(speeds.prompt_tokens, 1) if speeds else None,
        generation_tokens_per_s=_short(speeds.generation_tokens, 1) if speeds else None,
        rejected_per_s=_short(speeds.rejected, 1) if speeds else None,
    )


def _short(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
