"""Helpers of the shell's tests: no test may leave a process behind."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shell.worker.descendants import adopt_orphans, descendants, signal_all
from tests.shell.node_world import until


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Fail when a process of the test outlives it, however far it has moved away; and end it."""
    adopt_orphans()
    before = set(descendants(os.getpid()))
    yield
    try:
        until(lambda: before >= set(descendants(os.getpid())))
    except AssertionError:
        left = set(descendants(os.getpid())) - before
        names = sorted(_command(pid) for pid in left)
        signal_all(list(left), signal.SIGKILL)
        pytest.fail(f"left behind: {names}", pytrace=False)
    finally:
        _bury_orphans()


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return f"pid {pid}"


def _bury_orphans() -> None:
    """Take the codes of dead processes that came to us when their own parents died."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return
        if ended is None:
            return
