"""What a stand-in server is told to do wrong, or slowly. Standard library only.

``DD_SLURM_SIMULATE`` holds a JSON object. ``DD_SLURM_SIMULATE_CONTROL`` names a folder: when a file with the name of
the server's last served name (its identity) appears there, its JSON is applied to the living server.
"""

import asyncio
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

CONTROL = "DD_SLURM_SIMULATE_CONTROL"
POLL_S = 0.1


class Behaviour:
    """Numbers and faults. Durations are seconds; `fail_exit` below 0 is a signal."""

    def __init__(self, told: Mapping[str, Any], names: tuple[str, ...], rank: int) -> None:
        self._who = (names, rank)
        self.startup_s = 0.0
        self.ttft_s = 0.0
        self.tokens_per_s = 0.0
        self.seed = 0
        self.full: int | None = None
        self.stalled = False
        self.hang_startup = False
        self.fail_at: str | None = None
        self.fail_count = 0.0
        self.fail_exit = 1
        self.apply(told)

    def apply(self, told: Mapping[str, Any]) -> None:
        """Take over what is told, when it is meant for this process."""
        names, rank = self._who
        only = told.get("only", {})
        if only.get("name", "") not in " ".join(names) or only.get("rank", rank) != rank:
            return
        self.startup_s = float(told.get("startup_s", self.startup_s))
        self.ttft_s = float(told.get("ttft_ms", self.ttft_s * 1000)) / 1000
        self.tokens_per_s = float(told.get("tokens_per_s", self.tokens_per_s))
        self.seed = int(told.get("seed", self.seed))
        self.full = told.get("full", self.full)
        self.stalled = bool(told.get("stalled", self.stalled))
        self.hang_startup = bool(told.get("hang_startup", self.hang_startup))
        fail = told.get("fail")
        if fail is not None:
            self.fail_at, self.fail_count = fail["at"], float(fail.get("count", 0))
            self.fail_exit = int(fail.get("exit", 1))


def from_environment(names: tuple[str, ...], rank: int) -> Behaviour:
    """What the environment tells this process."""
    return Behaviour(json.loads(os.environ.get("DD_SLURM_SIMULATE", "{}")), names, rank)


async def follow_commands(behaviour: Behaviour, identity: str, changed: Callable[[], None]) -> None:
    """Apply commands to a living server, for ever. Returns at once when nobody gives commands."""
    folder = os.environ.get(CONTROL)
    if not folder:
        return
    command = pathlib.Path(folder) / identity
    while True:
        await asyncio.sleep(POLL_S)
        if command.exists():
            behaviour.apply(json.loads(command.read_text()))
            command.unlink()
            changed()
