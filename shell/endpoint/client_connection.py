"""One connection of a client: reads requests, one after the other, and writes the answers in their order.

A client that sends the next request before it has its answer waits: up to `_AHEAD` bytes are kept, then no more is
read. A client that closes its side, even only for sending, has gone: its request is cancelled at the server at once.
"""

import asyncio
from typing import TYPE_CHECKING

from typing_extensions import override

from core.admission.decision import Reject
from shell.endpoint.answer_head import AnswerHead
from shell.endpoint.client_output import ClientOutput
from shell.endpoint.exchange import Exchange
from shell.endpoint.fields import END
from shell.endpoint.own_answers import failure, own_answer, refusal
from shell.endpoint.request_body import RequestBody
from shell.endpoint.request_head import HEAD_LIMIT, HeadFault, RequestHead

if TYPE_CHECKING:
    from shell.endpoint.endpoint import Endpoint

_AHEAD = 65_536
_HEAD_SECONDS = 30.0
_LINGER_SECONDS = 2.0


class ClientConnection(ClientOutput):
    """Its states are told in `ClientOutput`."""

    __slots__ = (
        "body",
        "buffer",
        "close_after",
        "expecting",
        "head",
        "reading",
        "taking",
    )

    def __init__(self, endpoint: "Endpoint") -> None:
        super().__init__(endpoint)
        self.head: RequestHead | None = None
        self.buffer = bytearray()
        self.body: RequestBody | None = None
        self.close_after = False
        self.expecting = False
        """The client waits for permission to send its body."""
        self.reading = True
        self.taking = False

    # --- what the event loop reports ----------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
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
        if self.state == "closing" or (self.state == "head" and not self.buffer and self._takes_whole(data)):
            return
        if self.buffer or self.state == "answer":
            self.buffer += data
            self._take_buffer()
        else:
            self._take(data)

    # --- reading requests ---------------------------------------------------------------------------------------

    def _takes_whole(self, data: bytes) -> bool:
        """The usual case, one whole request with nothing unusual about it, for a fraction of what others cost."""
        end = data.find(END) + 4
        if end < 4 or end > HEAD_LIMIT or data[0] < 32:
            return False
        read = self.endpoint.heads.read(data[:end])
        if isinstance(read, HeadFault):
            return False
        head, length = read
        limit = self.endpoint.spec.max_body_bytes
        if not head.is_plain or len(data) != end + length or (limit is not None and length > limit):
            return False
        self.head, self.body, self.state = head, None, "answer"
        self.close_after = False
        exchange = self._new_exchange(head, head.forward(length) + data[end:])
        exchange.kept_size, exchange.request_sent = length, True
        exchange.route()
        return True

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
        read = self.endpoint.heads.read(raw)
        if isinstance(read, HeadFault):
            self._fault(read)
            return rest
        head, length = read
        self.head = head
        self.close_after = not head.keep_alive
        self.body = RequestBody(head.chunked, length, self.endpoint.spec.max_body_bytes)
        self.state = "answer" if self.body.is_complete else "body"
        self.expecting = head.expects and not rest
        if fault := self.body.fault_of_length(length):
            self.fail(fault.status, fault.reason)
        elif (answer := own_answer(self.endpoint, head)) is not None:
            self._answer(answer)
        else:
            return self._start(head, length, rest)
        return rest

    def _new_exchange(self, head: RequestHead, begun: bytes) -> Exchange:
        self.exchange = exchange = Exchange(self.endpoint, self, head, begun)
        self.endpoint.exchanges += 1
        return exchange

    def _start(self, head: RequestHead, length: int, rest: bytes) -> bytes:
        exchange = self._new_exchange(head, head.forward(length))
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

    def begin(self, answer: AnswerHead, raw: bytes, body: bytes, until_close: bool) -> None:
        """The head of an answer, and what is here of its body."""
        head = self.head
        assert head is not None
        if until_close or (not head.modern and not (answer.ends_with_head or head.method == b"HEAD")):
            self.close_after = True  # an HTTP/1.0 client finds the end of an unpacked body by the close
        self.write(answer.for_client(raw, head.modern, not self.close_after) + body)

    def finished(self) -> None:
        """The answer is complete."""
        self.exchange = None
        if self.state == "answer" and not self.close_after and self.reading and not self.buffer:
            self.state = "head"
            return
        if self.close_after or self._must_not_discard():
            self.hang_up(unread=self.state == "body")
        elif self.state == "answer":
            self.state = "head"
        self._go_on()

    def refuse(self, decision: Reject) -> None:
        """The request is not forwarded."""
        self._answer(refusal(decision, self.head))

    def fail(self, status: int, message: str) -> None:
        """The request cannot be answered as it was meant to be."""
        self._answer(failure(status, message, self.head))

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
        self.hang_up(unread=True)

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
