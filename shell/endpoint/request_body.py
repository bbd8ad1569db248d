"""How much of what comes still belongs to the body of a request."""

from shell.endpoint.chunks import BadChunk, ChunkScanner
from shell.endpoint.request_head import HeadFault

_DISCARD_LIMIT = 1 << 20


class RequestBody:
    """Counts; keeps nothing."""

    __slots__ = ("_chunks", "_left", "_limit", "is_complete")

    def __init__(self, chunked: bool, length: int, limit: int | None) -> None:
        self._chunks = ChunkScanner() if chunked else None
        self._left = length
        self._limit = limit
        self.is_complete = not chunked and length == 0

    @property
    def is_worth_discarding(self) -> bool:
        """Whether reading the rest for nothing is cheaper than a new connection."""
        return self._chunks is None and self._left <= _DISCARD_LIMIT

    def take(self, data: bytes) -> int | HeadFault:
        """How many of these bytes belong to it."""
        if self._chunks is None:
            used = min(self._left, len(data))
            self._left -= used
            self.is_complete = self._left == 0
            return used
        try:
            used = self._chunks.feed(data)
        except BadChunk as problem:
            return HeadFault(status=400, reason=str(problem))
        self.is_complete = self._chunks.done
        return self.fault_of_length(self._chunks.body_bytes) or used

    def fault_of_length(self, length: int) -> HeadFault | None:
        """A refusal when a body is longer than allowed."""
        if self._limit is None or length <= self._limit:
            return None
        return HeadFault(status=413, reason=f"a body may have {self._limit} bytes")
