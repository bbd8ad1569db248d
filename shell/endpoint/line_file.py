"""A file of lines that is written now and then: the event loop never waits for each line."""

import os

_FLUSH_AT = 65_536


class LineFile:
    """Append only, for its owner only (0600)."""

    __slots__ = ("_descriptor", "_lines", "_size")

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, line: bytes) -> None:
        """One line more, on disk after the next `flush`."""
        self._lines.append(line + b"\n")
        self._size += len(line) + 1
        if self._size >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write what is there. A full disk costs the lines, not the requests."""
        data, self._lines, self._size = b"".join(self._lines), [], 0
        if not data:
            return
        try:
            os.write(self._descriptor, data)
        except OSError:
            return

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        os.close(self._descriptor)
