"""The figures of an engine and the page of them, in the names and labels of vLLM 0.32. Standard library only."""

import bisect
from collections.abc import Iterable, Iterator

REASONS = ("stop", "length", "abort", "error", "repetition")
_TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
_FIRST = tuple(
    float(bound)
    for bound in "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560".split()
)
_BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_WHOLE = tuple(
    float(bound) for bound in "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680".split()
)

Row = tuple[str, dict[str, str], float]
"""What stands behind the family's name, labels, value."""


class Histogram:
    """Counts of values by upper bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Count a value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def rows(self) -> Iterator[Row]:
        """The lines of the page."""
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield "_bucket", {"le": bound}, total
        yield "_count", {}, total
        yield "_sum", {}, self._sum


class Figures:
    """What one engine has done."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.ended = dict.fromkeys(REASONS, 0)
        self.time_to_first = Histogram(_FIRST)
        self.between_tokens = Histogram(_BETWEEN)
        self.whole_request = Histogram(_WHOLE)
        self.in_queue = Histogram(_WHOLE)
        self.prompt_sizes = Histogram(_TOKENS)
        self.answer_sizes = Histogram(_TOKENS)

    @property
    def answered(self) -> int:
        """Requests that came to their end."""
        return self.ended["stop"] + self.ended["length"]


def page(model: str, engines: dict[int, Figures], slots: int, rejected: int) -> str:
    """The text of ``/metrics``: one series per data-parallel engine."""
    lines: list[str] = []
    for name, kind, text in _FAMILIES:
        lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} {kind}"]
        if name == "admission_rejections":
            lines += _lines(name, _counts(rejected), {"model_name": model})
            continue
        for number, figures in engines.items():
            lines += _lines(name, _rows(name, figures, slots), {"engine": str(number), "model_name": model})
    return "\n".join(lines) + "\n"


def _counts(rejected: int) -> Iterator[Row]:
    yield "_total", {"reason": "max_num_queued_reqs"}, rejected
    yield "_total", {"reason": "max_num_queued_tokens"}, 0


def _lines(name: str, rows: Iterable[Row], labels: dict[str, str]) -> Iterator[str]:
    for suffix, more, value in rows:
        inner = ",".join(f'{key}="{text}"' for key, text in sorted({**labels, **more}.items()))
        yield f"vllm:{name}{suffix}{{{inner}}} {float(value)}"


def _rows(name: str, figures: Figures, slots: int) -> Iterator[Row]:
    if name in _HISTOGRAMS:
        histogram: Histogram = getattr(figures, _HISTOGRAMS[name])
        yield from histogram.rows()
    elif name == "request_success":
        yield from (("_total", {"finished_reason": reason}, figures.ended[reason]) for reason in REASONS)
    elif name == "num_requests_waiting_by_reason":
        yield "", {"reason": "capacity"}, figures.waiting
        yield "", {"reason": "deferred"}, 0
    elif name == "engine_sleep_state":
        yield "", {"sleep_state": "awake"}, 1
        yield from (("", {"sleep_state": state}, 0) for state in ("weights_offloaded", "discard_all"))
    elif name == "kv_cache_usage_perc":
        yield "", {}, min(1.0, figures.running / max(slots, 1))
    elif name == "cache_config_info":
        yield "", {"block_size": "16", "cache_dtype": "auto", "num_gpu_blocks": str(slots * 64)}, 1
    else:
        counted = name in ("prompt_tokens", "generation_tokens", "prefix_cache_queries")
        suffix = "" if name in ("num_requests_running", "num_requests_waiting") else "_total"
        source = "prompt_tokens" if name == "prefix_cache_queries" else name
        known = counted or not suffix
        yield suffix, {}, getattr(figures, source.removeprefix("num_requests_")) if known else 0


_HISTOGRAMS = {
    "time_to_first_token_seconds": "time_to_first",
    "inter_token_latency_seconds": "between_tokens",
    "e2e_request_latency_seconds": "whole_request",
    "request_queue_time_seconds": "in_queue",
    "request_prompt_tokens": "prompt_sizes",
    "request_generation_tokens": "answer_sizes",
}
_FAMILIES = (
    ("num_requests_running", "gauge", "Number of requests in model execution batches."),
    ("num_requests_waiting", "gauge", "Number of requests waiting to be processed."),
    ("num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason."),
    ("engine_sleep_state", "gauge", "Engine sleep state."),
    ("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage."),
    ("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens."),
    ("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens."),
    ("num_preemptions", "counter", "Cumulative number of preemption from the engine."),
    ("prompt_tokens", "counter", "Number of prefill tokens processed."),
    ("generation_tokens", "counter", "Number of generation tokens processed."),
    ("request_success", "counter", "Count of successfully processed requests."),
    ("admission_rejections", "counter", "Count of requests that were rejected at admission."),
    ("request_prompt_tokens", "histogram", "Number of prefill tokens processed."),
    ("request_generation_tokens", "histogram", "Number of generation tokens processed."),
    ("time_to_first_token_seconds", "histogram", "Histogram of time to first token in seconds."),
    ("inter_token_latency_seconds", "histogram", "Histogram of inter-token latency in seconds."),
    ("e2e_request_latency_seconds", "histogram", "Histogram of e2e request latency in seconds."),
    ("request_queue_time_seconds", "histogram", "Histogram of time spent in WAITING phase for request."),
    ("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig"),
)
