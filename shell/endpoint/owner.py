"""The two lines between the endpoint and the process that owns it: control lines in, spoken lines out.

Input is read by a thread with plain reads, since standard input may be anything: a pipe, a file, a terminal. Output
never makes the endpoint wait: a line that the owner does not take in time is lost.
"""

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from core.endpoint_spec import ControlLine, SpokenLine
from shell.endpoint.line_file import LineFile

_INPUT, _OUTPUT = 0, 1


def read_control(on_line: Callable[[ControlLine], object], on_end: Callable[[], object]) -> None:
    """Start the thread. Both callbacks are called in it. A line that cannot be read is named on standard error."""
    threading.Thread(target=_read, args=(on_line, on_end), name="control", daemon=True).start()


def _read(on_line: Callable[[ControlLine], object], on_end: Callable[[], object]) -> None:
    decoder = msgspec.json.Decoder(ControlLine)
    rest = b""
    while data := _read_some():
        *lines, rest = (rest + data).split(b"\n")
        for line in filter(None, lines):
            try:
                on_line(decoder.decode(line))
            except msgspec.MsgspecError as error:
                print(f"endpoint: control line not understood: {error}", file=sys.stderr, flush=True)
            except RuntimeError:
                return  # the loop has ended in the meantime
    with contextlib.suppress(RuntimeError):
        on_end()


def _read_some() -> bytes:
    try:
        return os.read(_INPUT, 65_536)
    except OSError:
        return b""


class Voice:
    """Says lines to the owner, and to a file when there is one."""

    __slots__ = ("_file",)

    def __init__(self, path: str | None) -> None:
        self._file = None if path is None else LineFile(path)

    def say(self, line: SpokenLine) -> None:
        """Never blocks, never fails."""
        text = msgspec.json.encode(line)
        if self._file is not None:
            self._file.add(b'{"at":%.3f,"said":%b}' % (time.time(), text))
            self._file.flush()
        writable = select.poll()
        writable.register(_OUTPUT, select.POLLOUT)
        try:
            if any(happened & select.POLLOUT for _, happened in writable.poll(0)):
                os.write(_OUTPUT, text + b"\n")
        except OSError:
            return  # the owner is gone; the end of standard input says so
