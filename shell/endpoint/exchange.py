"""One request on its way: to which server, what was sent of it, and what becomes of it when a server fails.

A request is sent again only when the first server cannot have executed it: the connection was refused, the server said
that it is full, or its kernel took no byte of it (`shell.endpoint.delivery`). GET and HEAD, which change nothing, are
also sent again when an idle connection turns out to be closed. Everything else is told to the client: 502 before the
answer has begun, a broken connection afterwards. For sending again, up to `RETAINED` bytes of a body are kept until an
answer begins; a longer body is passed on without keeping it.
"""

import asyncio
import errno
from typing import TYPE_CHECKING

from core.admission.answers import SUSPECT, TURNED_AWAY, meaning_of
from core.admission.decide import Request
from core.admission.decision import Forward, Reject
from core.admission.events import Failed, TurnedAway
from shell.endpoint.answer_head import AnswerHead
from shell.endpoint.backend_connection import BackendConnection
from shell.endpoint.pool import Pool
from shell.endpoint.request_head import RequestHead

if TYPE_CHECKING:
    from shell.endpoint.client_connection import ClientConnection
    from shell.endpoint.endpoint import Endpoint

RETAINED = 1 << 20
_HELD_LIMIT = 65_536
_CONNECT_SECONDS = 5.0
_OURS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL))
"""Failures to connect for which the server is not to blame."""


class Exchange:
    """Begins with a request's head, ends with exactly one call of the client's: done, refused or broken off."""

    # Defaults of the class, not of each object: most requests never need most of them.
    request_sent = False
    replayable = True
    connection: BackendConnection | None = None
    connecting: asyncio.Task[None] | None = None
    tried: tuple[int, ...] = ()
    retries = 0
    answer: AnswerHead | None = None
    raw_answer = b""
    until_close = False
    """The answer ends when the server closes."""
    held: list[bytes] | None = None
    sent_bytes = 0
    over = False
    pool: Pool | None = None

    def __init__(self, endpoint: "Endpoint", client: "ClientConnection", head: RequestHead, begun: bytes) -> None:
        """`begun`: the head as a server gets it, and perhaps the body too."""
        self.endpoint = endpoint
        self.client = client
        self.head = head
        self.started_at = endpoint.clock()
        self.kept = [begun]
        self.kept_size = 0

    # --- what the client's side reports -------------------------------------------------------------------------

    def route(self, fresh: bool = False) -> None:
        """Ask for a decision and carry it out. `fresh`: not over a connection that was used before."""
        asked = (
            Request(authorized=self.head.is_authorized, tried=self.tried)
            if self.tried
            else _ASKED[self.head.is_authorized]
        )
        decision = self.endpoint.decide(asked)
        if isinstance(decision, Reject):
            self._refuse(decision)
        else:
            self._forward(decision, fresh)

    def feed(self, data: bytes) -> None:
        """More of the request's body."""
        if self.replayable:
            self.kept.append(data)
            self.kept_size += len(data)
        if self.connection is not None:
            self.connection.write(data)
            self._keep_little()

    def complete(self) -> None:
        """The request has been read to its end."""
        self.request_sent = True

    def cancel(self) -> None:
        """The client has gone: so shall the request."""
        if not self.over:
            self._release(None)
            self._close("client gone", 499)

    @property
    def is_behind(self) -> bool:
        """Whether the client must stop sending for a while."""
        if self.connection is None:
            return self.kept_size > RETAINED
        return self.connection.write_paused

    # --- sending ------------------------------------------------------------------------------------------------

    def _forward(self, decision: Forward, fresh: bool) -> None:
        self.pool = pool = self.endpoint.pools[decision.serial]
        self.endpoint.started(pool)
        if self.client.expecting:
            self.client.expecting = False
            self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection = None if fresh else pool.take()
        if connection is None:
            self.connecting = self.endpoint.spawn(self._connect(pool))
        else:
            self._attach(connection)

    async def _connect(self, pool: Pool) -> None:
        loop = self.endpoint.loop
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, connection = await loop.create_connection(lambda: BackendConnection(pool), pool.host, pool.port)
        except (OSError, TimeoutError) as error:
            self.connecting = None
            self._not_connected(error)
        else:
            self.connecting = None
            self._attach(connection)

    def _not_connected(self, error: OSError | TimeoutError) -> None:
        if error.errno in _OURS:
            self._release(None)
            self._fail(503, f"no connection can be made: {errno.errorcode[error.errno]}", "exhausted")
        else:
            reason = "no answer to a connection" if isinstance(error, TimeoutError) else "connection refused"
            self._release(Failed(serial=self._serial, reason=reason))
            self._again("refused")

    def _attach(self, connection: BackendConnection) -> None:
        self.connection = connection
        connection.send(self, self.kept)
        if self.kept_size > RETAINED:
            self._keep_little()
        if self.client.write_paused:
            connection.let_read(False)
        if not self.request_sent:
            self.client.update_reading()

    def _keep_little(self) -> None:
        if self.replayable and self.kept_size > RETAINED:
            self.replayable = False
            self.kept = []

    def _again(self, reason: str, fresh: bool = False, same: bool = False) -> None:
        """Try another server, or the same one over a new connection."""
        self.retries += 1
        self.endpoint.counters.retried(reason)
        if not same:
            self.tried = (*self.tried, self._serial)
        self.route(fresh)

    # --- what the server's side reports -------------------------------------------------------------------------

    def on_interim(self, status: int, head: bytes) -> None:
        """100 was answered by ourselves; others are for a client that knows them."""
        if status != 100 and self.head.modern:
            self.client.write(head)

    def on_head(self, answer: AnswerHead, raw: bytes, body: bytes) -> None:
        """The answer begins, with some of its body; a refusal is held back until it is understood."""
        self.answer = answer
        if answer.status in _HELD:
            self.raw_answer = raw
            self.held = [body]
        else:
            if self.endpoint.unfit and self.pool is not None:
                self.endpoint.answered(self.pool)
            self._begin(answer, raw, body)

    def on_body(self, data: bytes) -> None:
        """Part of the answer's body, as it came."""
        if self.held is None:
            self.sent_bytes += len(data)
            self.client.write(data)
            return
        self.held.append(data)
        if sum(map(len, self.held)) > _HELD_LIMIT:
            self._let_go()

    def on_end(self) -> None:
        """The answer is complete, and the connection is with its pool again or closed."""
        answer, self.connection = self.answer, None
        assert answer is not None
        if self.held is not None:
            self._end_of_held(answer, self.held)
            return
        self._release(None)
        self._close("answered", answer.status)
        self.client.finished()

    def _end_of_held(self, answer: AnswerHead, held: list[bytes]) -> None:
        meaning = meaning_of(answer.status, b"".join(held))
        if meaning == "full":
            self._turned_away(answer)
            return
        dead = Failed(serial=self._serial, reason=f"it answered {answer.status}: engine dead")
        self._release(dead if meaning == "dead" else None)
        self._let_go()
        self._close("answered", answer.status)
        self.client.finished()

    def on_lost(self, begun: bool, took_nothing: bool) -> None:
        """The server closed the connection, or broke the rules of HTTP, before the end."""
        connection, self.connection = self.connection, None
        assert connection is not None
        if not begun and self.replayable and connection.used and (took_nothing or self.head.method in _SAFE):
            self._release(None)
            self._again("idle-closed", fresh=True, same=True)
            return
        self._release(Failed(serial=self._serial, reason="it broke off a connection"))
        if not begun and self.replayable and took_nothing:
            self._again("dropped")
        elif self.answer is None or self.held is not None:
            self._fail(502, "the server closed the connection without an answer; it may have begun the work", "dropped")
        else:
            self._close("broken off", self.answer.status)
            self.client.break_off(hard=self.until_close or not self.head.modern)

    def _turned_away(self, answer: AnswerHead) -> None:
        pause = answer.retry_after if answer.retry_after and answer.retry_after.isdigit() else b""
        default = self.endpoint.spec.retry_after_seconds
        self._release(TurnedAway(serial=self._serial, retry_after_ms=1000 * (int(pause) if pause else default)))
        self.answer = self.held = None
        self.until_close = False
        if self.replayable:
            self._again("full")
        else:
            self._refuse(Reject(status=429, retry_after_seconds=int(pause) if pause else default, reason="full"))

    # --- towards the client -------------------------------------------------------------------------------------

    def _begin(self, answer: AnswerHead, raw: bytes, body: bytes) -> None:
        self.replayable = False
        self.kept = []
        self.sent_bytes = len(body)
        self.client.begin(answer, raw, body, self.until_close)

    def _let_go(self) -> None:
        """What was held back is an answer for the client."""
        held, self.held = self.held, None
        assert self.answer is not None
        assert held is not None
        self._begin(self.answer, self.raw_answer, b"".join(held))

    def _refuse(self, decision: Reject) -> None:
        self._close(decision.reason, decision.status)
        self.client.refuse(decision)

    def _fail(self, status: int, message: str, reason: str) -> None:
        self._close(reason, status)
        self.client.fail(status, message)

    def _release(self, fault: TurnedAway | Failed | None) -> None:
        """Let go of the server, and say how it was."""
        if self.connecting is not None:
            self.connecting.cancel()
            self.connecting = None
        if self.connection is not None:
            self.connection.drop()
            self.connection = None
        if self.pool is not None:
            self.endpoint.released(self.pool, fault)

    @property
    def _serial(self) -> int:
        return 0 if self.pool is None else self.pool.serial

    def _close(self, outcome: str, status: int) -> None:
        self.over = True
        self.kept = []
        self.endpoint.ended(self, outcome, status)


_SAFE = (b"GET", b"HEAD")
_HELD = frozenset((*SUSPECT, TURNED_AWAY))
_ASKED = {known: Request(authorized=known) for known in (False, True)}
