"""The word to begin, and not outliving whoever gave it."""

import os
import threading
import time
from collections.abc import Callable

POLL_S = 0.5


def wait_for_go() -> bool:
    """True at the line ``go`` on standard input, False at its end. Reads no byte beyond the line."""
    line = b""
    while byte := os.read(0, 1):
        if byte != b"\n":
            line += byte
        elif line.strip() == b"go":
            return True
        else:
            line = b""
    return False


def when_abandoned(parent: int, end: Callable[[], None]) -> None:
    """Call `end` once the process that started us is gone; its end of our standard input closes with it.

    A parent that only closes the pipe is alive, so its process id is looked at as well.
    """

    def watch() -> None:
        while os.read(0, 4096):
            pass
        while os.getppid() == parent:
            time.sleep(POLL_S)
        end()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
