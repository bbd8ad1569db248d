"""Idle connections to one server. The last one used goes first, so that what is not needed grows old and is closed."""

from collections.abc import Callable

from shell.endpoint.answer_head import AnswerHeads
from shell.endpoint.backend_connection import BackendConnection

IDLE_SECONDS = 4.0
"""Less than the 5 s after which vLLM's HTTP server closes an idle connection: we close first, so that no request meets
a connection that is being closed."""


class Pool:
    """The connections of one `serial`."""

    __slots__ = ("clock", "closed", "counts", "heads", "host", "id", "idle", "place", "port", "serial")

    def __init__(
        self, serial: int, backend_id: str, host: str, port: int, clock: Callable[[], float], heads: AnswerHeads
    ) -> None:
        self.clock = clock
        self.heads = heads
        self.serial = serial
        self.counts = [0]
        """At `place`: the requests that the server has of ours. All pools that are in use share one list."""
        self.place = 0
        self.id = backend_id
        self.host = host
        self.port = port
        self.idle: list[BackendConnection] = []
        self.closed = False

    def take(self) -> BackendConnection | None:
        """One that is good for a request."""
        now = self.clock()
        while self.idle:
            connection = self.idle.pop()
            if now - connection.idle_since < IDLE_SECONDS and connection.is_usable():
                return connection
            connection.transport.abort()
        return None

    def put(self, connection: BackendConnection) -> None:
        """Keep it for the next request."""
        if self.closed:
            connection.transport.close()
            return
        connection.idle_since = self.clock()
        self.idle.append(connection)

    def forget(self, connection: BackendConnection) -> None:
        """It is closed."""
        if connection in self.idle:
            self.idle.remove(connection)

    def sweep(self) -> None:
        """Close what has been idle for too long."""
        now = self.clock()
        while self.idle and now - self.idle[0].idle_since >= IDLE_SECONDS:
            self.idle.pop(0).transport.close()

    def close(self) -> None:
        """The server is not used any more; connections that are busy are closed when they are done."""
        self.closed = True
        for connection in self.idle:
            connection.transport.close()
        self.idle.clear()
