"""One connection of a client: reads requests, one after the other, and writes the answers in their order.

A client that sends the next request before it has its answer waits: up to `_AHEAD` bytes are kept, then no more is
read. A client that closes its side, even only for sending, has gone: its request is cancelled at the server at once.
"""

import asyncio
from typing import TYPE_CHECKING, Literal, cast

from typing_extensions import override

from core.admission.decide import Reject
from shell.endpoint.answer_head import AnswerHead
from shell.endpoint.delivery import end_with_reset
from shell.endpoint.exchange import Exchange
from shell.endpoint.fields import END
from shell.endpoint.own_answers import failure, own_answer, refusal
from shell.endpoint.request_body import RequestBody
from shell.endpoint.request_head import HEAD_LIMIT, HeadFault, RequestHead, read_request_head

if TYPE_CHECKING:
    from shell.endpoint.endpoint import Endpoint

_AHEAD = 65_536
_HEAD_SECONDS = 30.0
_LINGER_SECONDS = 2.0


class ClientConnection(asyncio.Protocol):
    """States: *head* waits for a request, *body* reads one, *answer* waits for the answer, *closing* ignores input."""

    __slots__ = (
        "body",
        "buffer",
        "close_after",
        "endpoint",
        "exchange",
        "expecting",
        "head",
        "reading",
        "since",
        "state",
        "taking",
        "transport",
        "write_paused",
    )

    def __init__(self, endpoint: "Endpoint") -> None:
        self.endpoint = endpoint
        self.exchange: Exchange | None = None
        self.head: RequestHead | None = None
        self.state: Literal["head", "body", "answer", "closing"] = "head"
        self.buffer = bytearray()
        self.body: RequestBody | None = None
        self.close_after = False
        self.expecting = False
        """The client waits for permission to send its body."""
        self.reading = True
        self.write_paused = False
        self.taking = False
        self.since = endpoint.clock()

    # --- what the event loop reports ----------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.endpoint.clients.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.endpoint.clients.discard(self)
        self._gone()

    @override
    def eof_received(self) -> None:
        self._gone()

    @override
    def data_received(self, data: bytes) -> None:
        if self.state == "closing":
            return
        if self.buffer or self.state == "answer":
            self.buffer += data
            self._take_buffer()
        else:
            self._take(data)

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

    # --- reading requests ---------------------------------------------------------------------------------------

    def _take_buffer(self) -> None:
        if self.state == "answer" or (self.state == "head" and self.buffer.find(END) < 0):
            if self.state == "head" and len(self.buffer) > HEAD_LIMIT:
                self._fault(HeadFault(status=431, reason="the head of the request is too long"))
            self.update_reading()
            return
        data = bytes(self.buffer)
        self.buffer.clear()
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Use up what can be used; keep the rest for later."""
        self.taking = True
        while data and self.state != "closing":
            if self.state == "head":
                data = data.lstrip(b"\r\n") if data[0] in b"\r\n" else data
                end = data.find(END) + 4
                if end > HEAD_LIMIT or (end < 4 and len(data) > HEAD_LIMIT):
                    self._fault(HeadFault(status=431, reason="the head of the request is too long"))
                elif end < 4:
                    break
                else:
                    data = self._begin_request(data[:end], data[end:])
            elif self.state == "body":
                data = self._take_body(data)
            else:
                break
        self.taking = False
        if data and self.state == "head":
            self.since = self.endpoint.clock()  # of the first byte of a head
        self.buffer += b"" if self.state == "closing" else data
        self.update_reading()

    def _begin_request(self, raw: bytes, rest: bytes) -> bytes:
        """Start a request with what is here of its body, and return what is left over."""
        head = read_request_head(raw, self.endpoint.credentials)
        if isinstance(head, HeadFault):
            self._fault(head)
            return rest
        self.head = head
        self.close_after = not head.keep_alive
        self.body = RequestBody(head, self.endpoint.spec.max_body_bytes)
        self.state = "answer" if self.body.is_complete else "body"
        self.expecting = head.expects and not rest
        if fault := self.body.fault_of_length(head.length):
            self.fail(fault.status, fault.reason)
        elif (answer := own_answer(self.endpoint, head)) is not None:
            self._answer(answer)
        else:
            return self._start(head, rest)
        return rest

    def _start(self, head: RequestHead, rest: bytes) -> bytes:
        exchange = Exchange(self.endpoint, self, head, self.endpoint.is_authorized(head))
        self.exchange = exchange
        self.endpoint.exchanges += 1
        if self.state == "answer":
            exchange.complete()
        elif rest:
            rest = self._take_body(rest)  # before the request is sent, so that both go with one write
        if self.exchange is exchange:
            exchange.route()
        return rest

    def _take_body(self, data: bytes) -> bytes:
        """Pass on what belongs to the body; the rest is returned."""
        assert self.body is not None
        used = self.body.take(data)
        if isinstance(used, HeadFault):
            self._fault(used)
            return b""
        exchange = self.exchange
        if exchange is not None:
            exchange.feed(data if used == len(data) else data[:used])
        if self.body.is_complete:
            self.state = "head" if exchange is None else "answer"
            if exchange is not None:
                exchange.complete()
        return data[used:]

    def update_reading(self) -> None:
        """Read on unless the server does not keep up or the client is too far ahead."""
        behind = self.exchange is not None and self.state == "body" and self.exchange.is_behind
        wanted = not behind and len(self.buffer) <= _AHEAD
        if wanted != self.reading and not self.transport.is_closing():
            self.reading = wanted
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    def sweep(self, now: float) -> None:
        """End what has taken too long: a head that does not come, a client that does not close."""
        if self.state == "head" and self.buffer and now - self.since > _HEAD_SECONDS:
            self._fault(HeadFault(status=408, reason="the head of the request did not come in time"))
        lingers = self.state == "closing" and now - self.since > _LINGER_SECONDS
        if lingers and not self.transport.get_write_buffer_size():
            self.transport.abort()

    # --- answers, as the exchange has them ----------------------------------------------------------------------

    def begin(self, answer: AnswerHead, body: bytes) -> None:
        """The head of an answer, and what is here of its body."""
        assert self.head is not None
        if answer.until_close or (not self.head.modern and not answer.bodiless):
            self.close_after = True  # an HTTP/1.0 client finds the end of an unpacked body by the close
        self.write(answer.for_client(self.head.modern, not self.close_after) + body)

    def write(self, data: bytes) -> None:
        """Bytes of an answer."""
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def finished(self) -> None:
        """The answer is complete."""
        self.exchange = None
        if self.close_after or self._must_not_discard():
            self._hang_up(unread=self.state == "body")
        elif self.state == "answer":
            self.state = "head"
        self._go_on()

    def refuse(self, decision: Reject) -> None:
        """The request is not forwarded."""
        self._answer(refusal(decision, self.head))

    def fail(self, status: int, message: str) -> None:
        """The request cannot be answered as it was meant to be."""
        self._answer(failure(status, message, self.head))

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

    def stop(self) -> None:
        """No further request: at once when idle, otherwise after this answer."""
        self.close_after = True
        if self.exchange is None:
            self.transport.close()

    def _must_not_discard(self) -> bool:
        """Whether too much of a body is still to come, or nobody knows how much."""
        return self.state == "body" and self.body is not None and not self.body.is_worth_discarding

    # --- the rest -----------------------------------------------------------------------------------------------

    def _answer(self, answer: bytes) -> None:
        """An answer of our own. Who waits for permission to send a body never sends it now, so nothing can follow."""
        assert self.head is not None
        if self.endpoint.state.draining or (self.expecting and self.state == "body"):
            self.close_after = True
        closing = self.close_after or self._must_not_discard()
        option = b"Connection: close\r\n" if closing else b"" if self.head.modern else b"Connection: keep-alive\r\n"
        self.write(answer.replace(b"\r\n", b"\r\n" + option, 1) if option else answer)
        self.close_after = closing
        self.finished()

    def _fault(self, fault: HeadFault) -> None:
        """Nobody knows where the next request would begin: the connection ends."""
        exchange, self.exchange = self.exchange, None
        begun = exchange is not None and exchange.answer is not None and exchange.held is None
        if exchange is not None:
            exchange.cancel()
        if begun:
            self.break_off(hard=True)
            return
        answer = failure(fault.status, fault.reason, None)
        self.write(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        self._hang_up(unread=True)

    def _hang_up(self, unread: bool) -> None:
        """Close for good. A close with unread input would destroy the answer: so end our side and read the rest."""
        self.state = "closing"
        self.since = self.endpoint.clock()
        if unread and not self.transport.is_closing():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _go_on(self) -> None:
        """Take the next request if it is here already."""
        if self.buffer and not self.taking and self.state == "head":
            self._take_buffer()
        elif not self.taking:
            self.update_reading()

    def _gone(self) -> None:
        exchange, self.exchange = self.exchange, None
        self.state = "closing"
        if exchange is not None:
            exchange.cancel()
            self.transport.abort()
