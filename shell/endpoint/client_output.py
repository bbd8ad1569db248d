"""What goes out to a client: bytes, a pause for the server while they are not taken, and the end of the connection."""

import asyncio
from typing import TYPE_CHECKING, Literal, cast

from typing_extensions import override

from shell.endpoint.delivery import end_with_reset

if TYPE_CHECKING:
    from shell.endpoint.endpoint import Endpoint
    from shell.endpoint.exchange import Exchange


class ClientOutput(asyncio.Protocol):
    """States: *head* waits for a request, *body* reads one, *answer* waits for the answer, *closing* ignores input."""

    __slots__ = ("endpoint", "exchange", "since", "state", "transport", "write_paused")

    def __init__(self, endpoint: "Endpoint") -> None:
        self.endpoint = endpoint
        self.exchange: Exchange | None = None
        self.state: Literal["head", "body", "answer", "closing"] = "head"
        self.write_paused = False
        self.since = endpoint.clock()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    @override
    def pause_writing(self) -> None:
        self.write_paused = True
        if self.exchange is not None and self.exchange.connection is not None:
            self.exchange.connection.let_read(False)

    @override
    def resume_writing(self) -> None:
        self.write_paused = False
        if self.exchange is not None and self.exchange.connection is not None:
            self.exchange.connection.let_read(True)

    def write(self, data: bytes) -> None:
        """Bytes of an answer."""
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def break_off(self, hard: bool) -> None:
        """The answer ends here though it is not complete: the client sees a connection that closes too early.

        `hard` where an ordinary close would look like a proper end.
        """
        self.exchange = None
        self.state = "closing"
        if hard:
            end_with_reset(self.transport)
        else:
            self.transport.close()

    def hang_up(self, unread: bool) -> None:
        """Close for good. A close with unread input would destroy the answer: so end our side and read the rest."""
        self.state = "closing"
        self.since = self.endpoint.clock()
        if unread and not self.transport.is_closing():
            self.transport.write_eof()
        else:
            self.transport.close()
