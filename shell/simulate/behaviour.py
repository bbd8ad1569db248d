"""What a stand-in server is told to do wrong, or slowly. Standard library only.

``DD_SLURM_SIMULATE`` holds a JSON object, or a list of them that are applied in turn. All keys may be left out::

    {"startup_s": 2, "ttft_ms": 50, "tokens_per_s": 200, "seed": 7,
     "fail": {"at": "startup" | "after_requests" | "after_s" | "now", "count": 3, "exit": 1 | -9 | "SIGKILL",
              "says": ["last lines of its log"]},
     "hang_startup": true, "stalled": true, "stall_after_requests": 3, "full": 429 | 503 | null, "ignore_term": true,
     "only": {"name": "part of a served name", "rank": 0}}

``DD_SLURM_SIMULATE_CONTROL`` names a folder: when a file with the name of the server's last served name (its identity)
appears or changes there, its JSON is applied to the living server (to every rank of the replica, or to `only` one).
"""

import asyncio
import json
import os
import pathlib
import signal
from collections.abc import Callable, Mapping
from typing import Any

TOLD = "DD_SLURM_SIMULATE"
CONTROL = "DD_SLURM_SIMULATE_CONTROL"
POLL_S = 0.1
_MOMENTS = ("startup", "after_requests", "after_s", "now")


class Behaviour:
    """Numbers and faults. Durations are seconds; `fail_exit` below 0 is a signal."""

    def __init__(self, told: Any, names: tuple[str, ...], rank: int) -> None:
        self._who = (names, rank)
        self.startup_s = 0.0
        self.ttft_s = 0.0
        self.tokens_per_s = 0.0
        self.seed = 0
        self.full: int | None = None
        self.stalled = False
        self.stall_after: int | None = None
        self.hang_startup = False
        self.ignore_term = False
        self.fail_at: str | None = None
        self.fail_count = 0.0
        self.fail_exit = 1
        self.fail_says: tuple[str, ...] = ()
        self.apply(told)

    def apply(self, told: Any) -> None:
        """Take over what is told, when it is meant for this process. `ValueError` when it cannot be understood."""
        for part in told if isinstance(told, list) else [told]:
            if not isinstance(part, dict):
                raise ValueError(f"expected an object, found {part!r}")
            if self._is_meant(part.get("only", {})):
                self._take(part)

    def _is_meant(self, only: Mapping[str, Any]) -> bool:
        names, rank = self._who
        return any(only.get("name", "") in name for name in names) and only.get("rank", rank) == rank

    def _take(self, told: Mapping[str, Any]) -> None:
        self.startup_s = float(told.get("startup_s", self.startup_s))
        self.ttft_s = float(told.get("ttft_ms", self.ttft_s * 1000)) / 1000
        self.tokens_per_s = float(told.get("tokens_per_s", self.tokens_per_s))
        self.seed = int(told.get("seed", self.seed))
        self.full = 503 if told.get("full") is True else told.get("full", self.full) or None
        self.stalled = bool(told.get("stalled", self.stalled))
        self.stall_after = told.get("stall_after_requests", self.stall_after)
        self.hang_startup = bool(told.get("hang_startup", self.hang_startup))
        self.ignore_term = bool(told.get("ignore_term", self.ignore_term))
        if told.get("fail") is not None:
            self.fail_at, self.fail_count, self.fail_exit = _failure(told["fail"])
            self.fail_says = tuple(str(line) for line in told["fail"].get("says", ()))

    def stalls(self, finished: int) -> bool:
        """Whether a request hangs, when so many have been finished."""
        return self.stalled or (self.stall_after is not None and finished >= self.stall_after)


def _failure(told: Mapping[str, Any]) -> tuple[str, float, int]:
    """Moment, count and exit of `fail`; the moment may also be the key of its count: ``{"after_requests": 3}``."""
    at, count = told.get("at"), told.get("count", 0)
    for place in (told, at):
        if isinstance(place, dict):
            at, count = next(((name, place[name]) for name in _MOMENTS if name in place), (at, count))
    ending = told.get("exit", 1)
    if at not in _MOMENTS:
        raise ValueError(f"fail.at is one of {', '.join(_MOMENTS)}; found {at!r}")
    if isinstance(ending, str):
        return at, float(count), -getattr(signal, ending, signal.SIGKILL)
    return at, float(count), int(ending)


def from_environment(names: tuple[str, ...], rank: int) -> Behaviour:
    """What the environment tells this process."""
    return Behaviour(json.loads(os.environ.get(TOLD) or "{}"), names, rank)


async def follow_commands(behaviour: Behaviour, identity: str, changed: Callable[[str], None]) -> None:
    """Apply commands to a living server, for ever. Returns at once when nobody gives commands.

    The file stays, because all ranks of a replica read it. One that is older than the server is not for this server.
    """
    folder = os.environ.get(CONTROL)
    if not folder:
        return
    command = pathlib.Path(folder) / identity
    seen = _stamp(command)
    while True:
        await asyncio.sleep(POLL_S)
        stamp = _stamp(command)
        if stamp in (seen, None):
            continue
        try:
            behaviour.apply(json.loads(command.read_text()))
        except (ValueError, OSError, TypeError, AttributeError):
            continue  # It is being written; the next look sees it whole.
        seen = stamp
        changed(command.name)


def _stamp(path: pathlib.Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
