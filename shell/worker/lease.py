"""A sign of life that node workers look for: when their controller is gone, with or without a word, they end.

``srun`` ends the tasks of a controller that dies, as long as somebody is left to tell them: not when the batch host has
lost its power, and not on a node whose ``slurmd`` is dead; Slurm may take minutes to notice. The sign is the time of
modification of one file, compared with itself only, so clocks need not agree, and renewing it needs no space on a full
disk. An attempt that has ended takes the file away. Runs inside the serving container: standard library only.
"""

import contextlib
import os
import threading
import time

RENEW_EVERY_S = 15.0
EXPIRES_AFTER_S = 180.0
"""Far above the 60 s for which NFS clients may answer from their cache."""
WITHDRAWN = -1
LOOKS = 12
"""How often a worker looks within that time."""


class Lease:
    """The controller's side. Renewed by a thread of its own until it is withdrawn."""

    def __init__(self, path: str, every_s: float = RENEW_EVERY_S) -> None:
        self._path, self._every_s = path, every_s
        self._closed = threading.Event()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
        threading.Thread(target=self._renew, name="lease", daemon=True).start()

    def withdraw(self) -> None:
        """Nothing of the attempt may run any more."""
        self._closed.set()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _renew(self) -> None:
        while not self._closed.wait(self._every_s):
            # A file system that fails for a moment is not a reason to end; workers wait much longer than one turn.
            with contextlib.suppress(OSError):
                os.utime(self._path)


class LeaseWatch:
    """A worker's side."""

    def __init__(self, path: str, expires_after_s: float = EXPIRES_AFTER_S) -> None:
        self._path, self._expires_after_s = path, expires_after_s
        self._seen = self._look()
        self._since = time.monotonic()

    @property
    def look_every_s(self) -> float:
        """How often `expired` should be asked."""
        return self._expires_after_s / LOOKS

    def expired(self) -> bool:
        """Whether it was withdrawn, or not renewed for too long, as far as this node can see."""
        seen = self._look()
        if seen == WITHDRAWN and self._seen not in (None, WITHDRAWN):
            return True
        if seen is not None and seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since > self._expires_after_s

    def _look(self) -> int | None:
        try:
            return os.stat(self._path).st_mtime_ns
        except FileNotFoundError:
            return WITHDRAWN
        except OSError:
            return None
