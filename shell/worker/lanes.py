"""The server processes of one node: starting them, noticing the first end at once, ending the rest.

One thread, no polling: all signals that matter are blocked and waited for, SIGCHLD among them, which works on every
kernel. Runs inside the serving container: standard library only.
"""

import os
import shutil
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple

from shell.worker.descendants import adopt_orphans, descendants, has_children, kill_descendants, reap, signal_all

_STOP = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR2}
"""USR2 is how the controller's order comes through `srun`, which kills its tasks when it gets TERM itself."""
_IGNORED = {signal.SIGHUP, signal.SIGUSR1}
"""Slurm and sites send these as warnings; the controller decides what they mean."""
_WATCHED = _STOP | _IGNORED | {signal.SIGCHLD}
_ONLY_FOR_US = (signal.SIGUSR2, *_IGNORED)
"""Slurm sends them to every process of a step, and they would kill servers that we mean to end in order, or not at all.

Blocked signals reach us all the same, also when they are ignored; servers inherit that, and may still handle them.
"""
_KILL_TIMEOUT_S = 5.0
_DEFAULTS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


class Command(NamedTuple):
    """A process to start."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    log: str


class Running(NamedTuple):
    """A process that was started, at milliseconds since the epoch."""

    name: str
    pid: int
    log: str
    at_ms: int


class Gone(NamedTuple):
    """A process that has ended. `code` is negative when a signal killed it."""

    name: str
    pid: int
    code: int
    at_ms: int


class Lanes:
    """All processes that come from this one."""

    def __init__(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        for number in _ONLY_FOR_US:
            signal.signal(number, signal.SIG_IGN)
        adopt_orphans()
        self.running: dict[int, Running] = {}
        self.gone: list[Gone] = []

    def start(self, command: Command) -> Running:
        """Start a process in a session of its own, without input, its output at the end of its log.

        Errors: OSError when it cannot be started.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            _executable(command),
            command.argv,
            command.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, command.log, flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULTS,
        )
        self.running[pid] = Running(command.name, pid, command.log, now_ms())
        return self.running[pid]

    def wait(self, seconds: float | None) -> Gone | str | None:
        """The first process that ends, the name of a signal to stop, or None when the time is over."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            if (ended := self._reap()) is not None:
                return ended
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            caught = _next_signal(left)
            if caught in _STOP:
                return signal.Signals(caught).name

    def end(self, grace_s: float) -> bool:
        """TERM to all, KILL after the grace to what is left. True when nothing had to be killed."""
        self._terminate()
        deadline = time.monotonic() + grace_s
        while True:
            while self._reap() is not None:
                pass
            if not has_children():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                break
            _next_signal(left)
        kill_descendants(_KILL_TIMEOUT_S, self._note)
        return False

    def _terminate(self) -> None:
        """To the group of each process, and to everything that has left these groups or has lost its leader."""
        for group in self.running:
            signal_group(group, signal.SIGTERM)
        signal_all([pid for pid in descendants(os.getpid()) if _group_of(pid) not in self.running], signal.SIGTERM)

    def _reap(self) -> Gone | None:
        """Take exit codes until one of ours is among them."""
        while (ended := reap()) is not None:
            if (noted := self._note(*ended)) is not None:
                return noted
        return None

    def _note(self, pid: int, code: int) -> Gone | None:
        lane = self.running.pop(pid, None)
        if lane is None:
            return None
        self.gone.append(Gone(lane.name, pid, code, now_ms()))
        return self.gone[-1]


def _executable(command: Command) -> str:
    """Where the process's own PATH has it, which may differ from ours."""
    found = shutil.which(command.argv[0], path=command.environ.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(2, "not found, or not executable", command.argv[0])
    return found


def _next_signal(seconds: float | None) -> int:
    """The next signal that we watch, 0 when none came in time."""
    if seconds is None:
        return signal.sigwait(_WATCHED)
    caught = signal.sigtimedwait(_WATCHED, seconds)
    return 0 if caught is None else caught.si_signo


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def signal_group(group: int, number: int) -> None:
    """Signal a process group; nothing when it is gone or belongs to somebody else."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
