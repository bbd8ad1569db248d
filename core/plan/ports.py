"""Ports of one node: disjoint, free by the node's own account, below its ephemeral range and inside the site's range.

Two jobs of one user begin at different places, which makes a clash rare; that it cannot happen is the work of the node
worker, which takes a lease and binds plainly before it launches.
"""

from bisect import bisect_left
from collections.abc import Sequence

from core.plan.facts import NodeFacts

DEFAULT_LOW = 10_000
_SPREAD = 7_919
"""A prime, so that consecutive jobs begin far apart."""


def port_range(facts: NodeFacts, site: tuple[int, int] | None) -> tuple[int, int]:
    """First and last usable port: the site's range, cut off below the ephemeral ports; empty when first > last."""
    low, high = site if site is not None else (DEFAULT_LOW, 65_535)
    return low, min(high, facts.ephemeral_low - 1)


def first_port(job_id: str, shard: int, low: int, high: int) -> int:
    """Where the search begins for a job and an array task."""
    number = int("".join(c for c in job_id if c.isdecimal()) or "0")
    return low + ((number * 31 + shard) * _SPREAD) % max(high - low + 1, 1)


def assign_ports(low: int, high: int, start: int, taken: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The first port of a run of `size` free ports for each of `sizes`, all disjoint; None when they do not fit.

    `taken` is sorted. The search goes upwards from `start` and once round; in a narrow range, where the way round cuts
    a run in two, it begins at `low` instead.
    """
    found = _from(low, high, start, taken, sizes)
    return found if found is not None or start == low else _from(low, high, low, taken, sizes)


def _from(low: int, high: int, start: int, taken: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...] | None:
    found: list[int] = []
    at, stop = start, high + 1
    for size in sizes:
        place = _free_run(at, stop, taken, size)
        if place is None and stop > start:
            stop = start
            place = _free_run(low, stop, taken, size)
        if place is None:
            return None
        found.append(place)
        at = place + size
    return tuple(found)


def _free_run(at: int, stop: int, taken: Sequence[int], size: int) -> int | None:
    """The first port from `at` on with `size` free ports in a row, all below `stop`."""
    index = bisect_left(taken, at)
    while at + size <= stop:
        if index == len(taken) or taken[index] >= at + size:
            return at
        at = taken[index] + 1
        index += 1
    return None
