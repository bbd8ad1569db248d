"""What `bench/instant_server.py` writes down, and waiting for it."""

import time
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 60.0


class Mark(NamedTuple):
    """Something that a server did. `pid` is the process as its own node counts."""

    what: str
    at_ns: int
    pid: int


def read_marks(path: Path) -> list[Mark]:
    """All that are whole, oldest first."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    found = (line.split() for line in lines)
    return sorted((Mark(what, int(at), int(pid)) for what, at, pid in found), key=lambda mark: mark.at_ns)


def await_marks(path: Path, what: str, count: int) -> list[Mark]:
    """The first `count` marks of a kind, as soon as they are there."""
    deadline = time.monotonic() + PATIENCE_S
    while len(found := [mark for mark in read_marks(path) if mark.what == what]) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} times {what!r} in {path}; there is {found}")
        time.sleep(0.01)
    return found[:count]
