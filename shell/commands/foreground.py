"""One process after the other in the foreground: what ends us ends it in order, and we wait until it has ended."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from types import FrameType, TracebackType
from typing import IO

from shell.worker.descendants import end_with

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Foreground:
    """Use it as a context, from the main thread. What it runs has its own session: only we hear of the terminal."""

    def __init__(self) -> None:
        self.stopped_by: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._before = {number: signal.getsignal(number) for number in _PASSED_ON}

    def __enter__(self) -> "Foreground":
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self._pass_on)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def run(self, argv: Sequence[str], environ: Mapping[str, str], folder: str, stdout: IO[str] | None) -> int:
        """Its exit code, 128+n for signal n. It gets TERM when this process is killed."""
        to_end = partial(end_with, os.getpid())
        with subprocess.Popen(
            argv, stdout=stdout, env=environ, cwd=folder, preexec_fn=to_end, start_new_session=True
        ) as self._process:
            if self.stopped_by is not None:  # it came before there was a process to hand it to
                self._process.send_signal(self.stopped_by)
            code = self._process.wait()
        return code if code >= 0 else 128 - code

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by = number
        if self._process is not None:
            self._process.send_signal(number)
