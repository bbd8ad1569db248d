"""One ``srun``: started, tried again when its step could not be made just now, and told to stop."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from core.slurm.srun_says import failed_in_passing, failed_on_a_node, pause_before_try_s, read_srun_line
from core.supervise.effects import Signal
from core.units import NodeName
from shell.launch.processes import Child, Reaper

STOP_IN_ORDER = signal.SIGUSR2
_EXIT_NOT_STARTED = 127

TaskCallback = Callable[[NodeName, int], None]
StepCallback = Callable[[int], None]


class SrunStep:
    """Used from the controller's thread, from the reaper's, and from that of a timer while it waits to try again."""

    def __init__(
        self,
        reaper: Reaper,
        argv: Sequence[str],
        environ: Mapping[str, str],
        log: str,
        task_ended: TaskCallback,
        step_ended: StepCallback,
        patience_s: float,
        repeatable: bool = False,
    ) -> None:
        """`repeatable`: the tasks may run twice, so a node that did not take its own is a reason to try again."""
        self._reaper, self._argv, self._environ, self._log = reaper, argv, environ, log
        self._task_ended, self._step_ended, self._patience_s = task_ended, step_ended, patience_s
        self._repeatable = repeatable
        self._child: Child | None = None
        self._asked: Signal | None = None
        self._in_passing = False
        self._tries = 0
        self._lock = threading.RLock()

    def start(self) -> None:
        """Answered by `step_ended`, also when nothing could be started."""
        with self._lock:
            if self._asked is None:
                self._tries += 1
                self._in_passing = False
                try:
                    self._child = self._reaper.spawn(
                        self._argv, self._environ, self._log, self._exited, on_line=self._hear, errors="lines"
                    )
                    return
                except OSError as error:
                    self._write(f"{error.filename or self._argv[0]}: {error.strerror}")
        self._step_ended(_EXIT_NOT_STARTED)

    def signal(self, asked: Signal) -> None:
        """TERM ends the step in order; KILL lets ``srun`` kill its tasks now. Nothing when it is gone."""
        with self._lock:
            self._asked = asked
            child = self._child
        if child is None:
            return
        if asked == "TERM":
            child.signal_alone(STOP_IN_ORDER)
            return
        child.signal_alone(signal.SIGTERM)
        _later(self._patience_s, lambda: child.signal(signal.SIGKILL))

    def _exited(self, code: int) -> None:
        """In the reaper's thread."""
        with self._lock:
            pause = pause_before_try_s(self._tries + 1) if self._in_passing and self._asked is None else None
            self._child = None
        if code == 0 or pause is None:
            self._step_ended(code)
            return
        self._write(f"the step could not be made just now; trying again in {pause} s")
        _later(pause, self.start)

    def _hear(self, line: str) -> None:
        """In the reaper's thread."""
        self._write(line)
        if failed_in_passing(line) or (self._repeatable and failed_on_a_node(line)):
            self._in_passing = True
        ended = read_srun_line(line)
        if ended is not None:
            for node in ended.nodes:
                self._task_ended(node, ended.code)

    def _write(self, line: str) -> None:
        """A full disk must not end servers that work."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{line}\n".encode())
            finally:
                os.close(descriptor)


def _later(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
