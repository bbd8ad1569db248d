"""A server's load from its ``/metrics`` page: engines and API servers summed, names of vLLM 0.10 to 0.33.

Whatever is not there is not guessed: a page without the two gauges of requests is *unavailable* (the server was started
with --disable-log-stats, or something else answers). ``vllm:num_requests_waiting_by_reason`` tells the same requests
again and is left out.
"""

import math
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from prometheus_client.parser import text_string_to_metric_families

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
KV_CACHE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""The second one was its name before 0.12."""
PROMPT, GENERATION = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"
REJECTED, PREEMPTED = "vllm:admission_rejections_total", "vllm:num_preemptions_total"
SUCCEEDED = "vllm:request_success_total"
WANTED = (RUNNING, WAITING, *KV_CACHE, PROMPT, GENERATION, REJECTED, PREEMPTED, SUCCEEDED)
_STARTS = tuple(f"{name}{end}" for name in WANTED for end in ("{", " "))


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself. None: this version does not tell.

    `kv_cache_usage` (0 to 1) is that of the fullest engine, the counters count from the server's start.
    """

    running: int
    waiting: int
    kv_cache_usage: float | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    rejected: int | None = None
    preempted: int | None = None
    succeeded: int | None = None


class Unavailable(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody knows how loaded it is; `why` is for people."""

    why: str


Reading: TypeAlias = Load | Unavailable


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Per second, between two readings. None: not told by both."""

    prompt_tokens: float | None
    generation_tokens: float | None
    rejected: float | None


def read_page(text: str) -> Reading:
    """The load that a page tells. Never raises, whatever the text is."""
    try:
        values = _values(text)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        return Unavailable(why=f"the page of metrics cannot be read: {error}")
    missing = [name for name in (RUNNING, WAITING) if name not in values]
    if missing:
        return Unavailable(why=f"the page of metrics has no {' and no '.join(missing)}")
    usage = next((values[name] for name in KV_CACHE if name in values), None)
    return Load(
        running=int(sum(values[RUNNING])),
        waiting=int(sum(values[WAITING])),
        kv_cache_usage=None if usage is None else max(usage),
        prompt_tokens=_count(values, PROMPT),
        generation_tokens=_count(values, GENERATION),
        rejected=_count(values, REJECTED),
        preempted=_count(values, PREEMPTED),
        succeeded=_count(values, SUCCEEDED),
    )


def _values(text: str) -> dict[str, tuple[float, ...]]:
    """All samples of the wanted names, in the order of the page."""
    found: dict[str, tuple[float, ...]] = {}
    for family in text_string_to_metric_families("\n".join(_wanted_lines(text)) + "\n"):
        for sample in family.samples:
            value = float(sample.value)
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{sample.name} is {value}")
            found[sample.name] = (*found.get(sample.name, ()), value)
    return found


def _wanted_lines(text: str) -> Iterator[str]:
    """The parser takes 26 ms for a whole page of 52 kB, and a page has a dozen lines of interest."""
    return (line for line in text.split("\n") if line.startswith("vllm:") and line.startswith(_STARTS))


def _count(values: dict[str, tuple[float, ...]], name: str) -> int | None:
    return int(sum(values[name])) if name in values else None


def rates(before: Load, after: Load, seconds: float) -> Rates | None:
    """How fast counters grew; None when no time has passed. A counter that fell has begun anew with its process."""
    if seconds <= 0:
        return None
    return Rates(
        prompt_tokens=_rate(before.prompt_tokens, after.prompt_tokens, seconds),
        generation_tokens=_rate(before.generation_tokens, after.generation_tokens, seconds),
        rejected=_rate(before.rejected, after.rejected, seconds),
    )


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    if before is None or after is None:
        return None
    return (after - before if after >= before else after) / seconds


def work_of(load: Load) -> tuple[int | None, ...]:
    """What changes whenever a server gets on with anything: tokens read or made, requests done, put back or refused."""
    return (load.prompt_tokens, load.generation_tokens, load.succeeded, load.preempted)
