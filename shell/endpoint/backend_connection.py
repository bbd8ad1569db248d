"""One connection to a server: sends requests, one after the other, and finds where their answers end.

Bytes of an answer are first read by llhttp and then passed on as they are; a body whose length is known only needs to
be counted. What llhttp refuses, or what comes after the end of a message, never reaches a client.
"""

import asyncio
import select
from typing import TYPE_CHECKING, cast

import httptools
from typing_extensions import override

from shell.endpoint.answer_head import AnswerHead, BadAnswer
from shell.endpoint.delivery import took_nothing
from shell.endpoint.fields import END
from shell.endpoint.sink import Sink, UnpackingSink

if TYPE_CHECKING:
    from shell.endpoint.exchange import Exchange
    from shell.endpoint.pool import Pool

_HEAD_LIMIT = 65_536
_ENDLESS = 1 << 62
_ANYTHING = select.POLLIN | select.POLLRDHUP | select.POLLHUP | select.POLLERR


class BackendConnection(asyncio.Protocol):
    """Owned by its pool while idle, by one exchange otherwise."""

    __slots__ = (
        "answer",
        "buffer",
        "descriptor",
        "exchange",
        "idle_since",
        "left",
        "own_name",
        "parser",
        "poll",
        "pool",
        "reading",
        "sink",
        "transport",
        "used",
        "write_paused",
        "written",
        "written_before",
    )

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.exchange: Exchange | None = None
        self.answer: AnswerHead | None = None
        self.buffer = b""
        self.left = 0
        """Bytes of the answer's body that are still to come, where its head says how many there are."""
        self.parser: httptools.HttpResponseParser | None = None
        """Reads a body whose end must be looked for; None while there is none."""
        self.used = False
        self.reading = True
        self.write_paused = False
        self.written = 0
        self.written_before = 0
        self.idle_since = 0.0

    # --- what the exchange asks for -----------------------------------------------------------------------------

    def send(self, exchange: "Exchange", pieces: list[bytes]) -> None:
        """Begin a request."""
        self.exchange = exchange
        self.written_before = self.written
        self.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def write(self, data: bytes) -> None:
        """Go on with the request."""
        self.written += len(data)
        if not self.transport.is_closing():
            self.transport.write(data)

    def let_read(self, wanted: bool) -> None:
        """Stop or go on reading the answer, as the client keeps up."""
        if wanted != self.reading and not self.transport.is_closing():
            self.reading = wanted
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    def drop(self) -> None:
        """The exchange is over for another reason: the server notices at once."""
        self.exchange = None
        self.transport.abort()

    def is_usable(self) -> bool:
        """Nothing has come on the idle connection, not even its end."""
        return not self.transport.is_closing() and not self.poll.poll(0)

    # --- what the event loop reports ----------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.descriptor = transport.get_extra_info("socket").fileno()
        self.own_name = transport.get_extra_info("sockname")
        self.poll = select.poll()
        self.poll.register(self.descriptor, _ANYTHING)

    @override
    def data_received(self, data: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            self.transport.abort()  # nobody asked
        elif self.answer is None:
            self._read_head(exchange, data)
        elif self.parser is not None:
            self._read_chunks(exchange, data)
        else:
            self.left -= len(data)
            if self.left < 0:
                self._lose(False)
                return
            exchange.on_body(data)
            if self.left == 0:
                self._end(reusable=True)

    @override
    def eof_received(self) -> None:
        if self.exchange is not None and self.exchange.until_close:
            self._end(reusable=False)
        else:
            self._lose(took_nothing(self.descriptor, self.own_name, self.written_before))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.pool.forget(self)
        # EPIPE means that the server's clean end had come before; any other error proves nothing
        clean = isinstance(exc, BrokenPipeError)
        self._lose(clean and took_nothing(self.descriptor, self.own_name, self.written_before))

    @override
    def pause_writing(self) -> None:
        self.write_paused = True
        if self.exchange is not None:
            self.exchange.client.update_reading()

    @override
    def resume_writing(self) -> None:
        self.write_paused = False
        if self.exchange is not None:
            self.exchange.client.update_reading()

    # --- reading ------------------------------------------------------------------------------------------------

    def _read_head(self, exchange: "Exchange", data: bytes) -> None:
        if self.buffer:
            data, self.buffer = self.buffer + data, b""
        while True:
            end = data.find(END) + 4
            if end < 4:
                self.buffer = data
                if len(data) > _HEAD_LIMIT:
                    self._lose(False)
                return
            raw, data = data[:end], data[end:]
            try:
                answer, length = self.pool.heads.read(raw)
            except BadAnswer:
                self._lose(False)
                return
            if answer.status >= 200:
                self._begin(exchange, answer, length, raw, data)
                return  # by now this connection may be busy with another request
            exchange.on_interim(answer.status, raw)

    def _begin(self, exchange: "Exchange", answer: AnswerHead, length: int, raw: bytes, body: bytes) -> None:
        """Pass on a head with what is here of the body."""
        self.answer = answer
        if answer.ends_with_head or exchange.head.method == b"HEAD":
            exchange.on_head(answer, raw, b"")
            self._end(reusable=not body)
        elif answer.chunked:
            self.sink = Sink() if exchange.head.modern else UnpackingSink()
            self.parser = httptools.HttpResponseParser(self.sink)
            if self._feed(raw) and self._feed(body):
                exchange.on_head(answer, raw, self.sink.passed_on(body))
                self._end_if_complete()
        else:
            exchange.until_close = not answer.measured
            self.left = (length if answer.measured else _ENDLESS) - len(body)
            if self.left < 0:
                self._lose(False)
                return
            exchange.on_head(answer, raw, body)
            if self.left == 0:
                self._end(reusable=True)

    def _read_chunks(self, exchange: "Exchange", data: bytes) -> None:
        if self._feed(data):
            exchange.on_body(self.sink.passed_on(data))
            self._end_if_complete()

    def _feed(self, data: bytes) -> bool:
        """Whether this is still one well-formed answer."""
        assert self.parser is not None
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._lose(False)
            return False
        if self.sink.begins > 1:
            self._lose(False)
            return False
        return True

    def _end_if_complete(self) -> None:
        if self.sink.ends:
            self._end(reusable=True)

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self, reusable: bool) -> None:
        exchange, answer = self.exchange, self.answer
        assert exchange is not None
        assert answer is not None
        self.exchange = self.answer = self.parser = None
        self.used = True
        if reusable and answer.keep_alive and exchange.request_sent and not self.transport.is_closing():
            if not self.reading:
                self.let_read(True)
            self.pool.put(self)
        else:
            self.transport.close()
        exchange.on_end()

    def _lose(self, took_nothing_of_it: bool) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            begun = self.answer is not None or bool(self.buffer)
            exchange.on_lost(begun, took_nothing_of_it)
        self.transport.abort()
