"""What the endpoint counts, and its page for Prometheus."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from core.admission.state import Admission, fresh_load, standing
from core.units import MonotonicMs

_BOUNDS = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1200.0)


class Counters:
    """Sums since the start."""

    __slots__ = ("buckets", "requests", "retries", "seconds")

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, str]] = Counter()
        self.retries: Counter[str] = Counter()
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0

    def ended(self, status: int, outcome: str, seconds: float) -> None:
        """A request has ended."""
        self.requests[status, outcome] += 1
        self.buckets[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds

    def retried(self, reason: str) -> None:
        """A request goes to another server, or again to the same one."""
        self.retries[reason] += 1


def metrics_text(counters: Counters, state: Admission, in_flight: Sequence[int], open_: int, now: MonotonicMs) -> str:
    """The page."""
    return "\n".join((*_totals(counters, open_), *_latency(counters), *_backends(state, in_flight, now), ""))


def _totals(counters: Counters, in_flight: int) -> Iterator[str]:
    yield "# HELP dd_endpoint_requests_total Requests that ended, by the status that the client saw."
    yield "# TYPE dd_endpoint_requests_total counter"
    for (status, outcome), count in sorted(counters.requests.items()):
        yield f'dd_endpoint_requests_total{{status="{status}",outcome="{outcome}"}} {count}'
    yield "# HELP dd_endpoint_retries_total Requests that were sent to another server, by reason."
    yield "# TYPE dd_endpoint_retries_total counter"
    for reason, count in sorted(counters.retries.items()):
        yield f'dd_endpoint_retries_total{{reason="{reason}"}} {count}'
    yield "# HELP dd_endpoint_in_flight Requests that have no complete answer yet."
    yield "# TYPE dd_endpoint_in_flight gauge"
    yield f"dd_endpoint_in_flight {in_flight}"


def _latency(counters: Counters) -> Iterator[str]:
    yield "# HELP dd_endpoint_request_seconds From the head of the request to the end of the answer."
    yield "# TYPE dd_endpoint_request_seconds histogram"
    total = 0
    for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counters.buckets, strict=True):
        total += count
        yield f'dd_endpoint_request_seconds_bucket{{le="{bound}"}} {total}'
    yield f"dd_endpoint_request_seconds_sum {counters.seconds:.6f}"
    yield f"dd_endpoint_request_seconds_count {total}"


def _backends(state: Admission, in_flight: Sequence[int], now: MonotonicMs) -> Iterator[str]:
    loads = {backend.id: fresh_load(state.policy, backend, now) for backend in state.backends}
    yield "# HELP dd_endpoint_backend_in_flight Requests of ours that a server has."
    yield "# TYPE dd_endpoint_backend_in_flight gauge"
    for backend, busy in zip(state.backends, in_flight, strict=True):
        yield f'dd_endpoint_backend_in_flight{{backend="{backend.id}"}} {busy}'
    yield "# HELP dd_endpoint_backend_waiting Requests that wait in a server, as last sampled."
    yield "# TYPE dd_endpoint_backend_waiting gauge"
    for name, load in loads.items():
        if load is not None:
            yield f'dd_endpoint_backend_waiting{{backend="{name}"}} {load.waiting}'
    yield "# HELP dd_endpoint_backend_unsampled 1 where no fresh figures are known: admission is open there."
    yield "# TYPE dd_endpoint_backend_unsampled gauge"
    for name, load in loads.items():
        yield f'dd_endpoint_backend_unsampled{{backend="{name}"}} {int(load is None)}'
    yield "# HELP dd_endpoint_backend_state 1 for the state that a server is seen in."
    yield "# TYPE dd_endpoint_backend_state gauge"
    for backend, busy in zip(state.backends, in_flight, strict=True):
        seen = standing(state.policy, backend, busy, now)
        yield f'dd_endpoint_backend_state{{backend="{backend.id}",state="{seen}"}} 1'
