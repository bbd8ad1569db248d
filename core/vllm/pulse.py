"""Whether a server that has work gets on with it.

Requests run and nothing is read, made or finished for too long: *stalled*. What cannot be read proves nothing, and a
server without requests may rest as long as it likes.
"""

import msgspec

from core.units import MonotonicMs
from core.vllm.metrics import Load, Reading, work_of


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """Requests run, and the counters stand at `work` since then."""

    work: tuple[int | None, ...]
    since: MonotonicMs


def felt(before: Pulse | None, reading: Reading, at: MonotonicMs) -> Pulse | None:
    """The pulse after a reading; None when there is nothing to be waited for, or nobody can tell."""
    if not isinstance(reading, Load) or reading.running == 0 or reading.generation_tokens is None:
        return None
    work = work_of(reading)
    return before if before is not None and before.work == work else Pulse(work=work, since=at)


def is_stalled(pulse: Pulse | None, at: MonotonicMs, patience_ms: int) -> bool:
    """Whether it has stood still for too long."""
    return pulse is not None and at - pulse.since >= patience_ms
