"""Knowing and ending every process that comes from this one, whatever it did to hide: sessions, double forks.

A process that called `adopt_orphans` becomes the parent of every descendant whose own parent dies. So it has no
children left exactly when it has no descendants left, and a zombie counts as dead. Standard library only.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), *(ctypes.c_ulong(0),) * 3) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with(parent: int) -> None:
    """Get TERM when `parent` dies, also if that has happened already.

    The kernel looks at the *thread* that started this process: it must be one that lives as long as its process.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def descendants(root: int) -> list[int]:
    """Pids of all living processes below `root`, parents before children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = _living_parent(name)
            if parent is not None:
                children.setdefault(parent, []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _living_parent(pid: str) -> int | None:
    """The parent of a process; None when it is dead. A command name may hold spaces and brackets."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except OSError:
        return None
    return None if state in b"ZX" else int(parent)


def signal_all(pids: list[int], number: int) -> None:
    """Signal each; those that are gone or belong to somebody else are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def ignore(pid: int, code: int) -> None:
    """Nobody wants to know."""


def kill_descendants(timeout: float, note: Callable[[int, int], object] = ignore) -> bool:
    """Kill everything below this process and `note` its exit codes; needs `adopt_orphans` and SIGCHLD blocked.

    A child that is born while we look becomes ours when its parent dies, so a later look finds it. False when something
    stayed alive for the whole time, as a process that hangs in a device driver does.
    """
    deadline = time.monotonic() + timeout
    while True:
        signal_all(descendants(os.getpid()), signal.SIGKILL)
        while (ended := reap()) is not None:
            note(*ended)
        if not has_children():
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        signal.sigtimedwait({signal.SIGCHLD}, min(left, 0.2))


def reap() -> tuple[int, int] | None:
    """Pid and exit code (negative: a signal) of one child that has ended; None when there is none."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, os.waitstatus_to_exitcode(status)) if pid else None


def has_children() -> bool:
    """Whether any child is alive, or dead and not yet reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
