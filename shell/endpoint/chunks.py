"""Where a chunked request body ends. Strict: what is passed on raw must mean the same to all readers (RFC 9112 7.1)."""

import re

_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?")
_LINE_LIMIT = 4_096
_TRAILER_LIMIT = 65_536


class BadChunk(ValueError):
    """The body is not chunked as it claims."""


class ChunkScanner:
    """Counts bytes; keeps none but those of an unfinished line."""

    __slots__ = ("_in_trailer", "_left", "_line", "_trailer_size", "body_bytes", "done")

    def __init__(self) -> None:
        self.done = False
        self.body_bytes = 0
        self._left = 0  # of the current chunk, with its CRLF
        self._line = b""
        self._in_trailer = False
        self._trailer_size = 0

    def feed(self, data: bytes) -> int:
        """How many of these bytes still belong to the body. Raises `BadChunk`."""
        at, size = 0, len(data)
        while at < size and not self.done:
            at = self._skip(data, at) if self._left else self._read_line(data, at)
        return at

    def _skip(self, data: bytes, at: int) -> int:
        """Pass over chunk data; its last two bytes must be CRLF."""
        take = min(self._left, len(data) - at)
        for offset, wanted in ((2, b"\r"), (1, b"\n")):
            place = self._left - offset
            if 0 <= place < take and data[at + place : at + place + 1] != wanted:
                raise BadChunk("a chunk does not end where it says")
        self._left -= take
        return at + take

    def _read_line(self, data: bytes, at: int) -> int:
        found = data.find(b"\n", at)
        end = len(data) if found < 0 else found + 1
        self._line += data[at:end]
        if len(self._line) > _LINE_LIMIT:
            raise BadChunk("a line between chunks is too long")
        if found >= 0:
            line, self._line = self._line, b""
            if line[-2:] != b"\r\n" or b"\r" in line[:-2]:
                raise BadChunk("a line between chunks does not end with CRLF")
            self._take_line(line[:-2])
        return end

    def _take_line(self, line: bytes) -> None:
        if self._in_trailer:
            self._trailer_size += len(line)
            if self._trailer_size > _TRAILER_LIMIT:
                raise BadChunk("the trailers are too long")
            self.done = not line
            return
        match = _SIZE.fullmatch(line)
        if match is None:
            raise BadChunk("the size of a chunk is not a hexadecimal number")
        size = int(match[1], 16)
        self.body_bytes += size
        self._in_trailer = size == 0
        self._left = size + 2 if size else 0
