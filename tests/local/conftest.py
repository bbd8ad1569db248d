"""Runs that end with their test."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.local.local_run import STAND_IN, LocalRun

MakeRun = Callable[..., LocalRun]


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[MakeRun]:
    """Make a run; what it starts is ended with the test."""
    made: list[LocalRun] = []

    def make(
        changes: Mapping[str, Any] | None = None,
        gpus_per_node: int = 1,
        executable: Sequence[str] = STAND_IN,
        **top: Any,
    ) -> LocalRun:
        made.append(LocalRun(tmp_path, changes or {}, top, gpus_per_node, executable))
        return made[-1]

    yield make
    for run in made:
        run.end()
