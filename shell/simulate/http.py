"""Just enough of an HTTP/1.1 server for OpenAI clients: keep-alive, bodies, chunked answers. Standard library only."""

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any

MOST_HEADER_BYTES = 65_536


@dataclasses.dataclass(frozen=True)
class Request:
    """One request, completely read."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer; `events` is streamed as server-sent events in place of `body`."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    events: AsyncGenerator[str, None] | None = None


Handler = Callable[[Request], Awaitable[Answer]]


def as_json(value: Any, status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer(status=status, body=json.dumps(value).encode())


async def serve_on(listener: socket.socket, handler: Handler) -> asyncio.Server:
    """Listen on a bound socket and answer."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: _Connection(handler, loop), sock=listener, backlog=2048)


class _Connection(asyncio.StreamReaderProtocol):
    """A connection whose work ends when the client goes: a request that nobody waits for keeps no slot."""

    def __init__(self, handler: Handler, loop: asyncio.AbstractEventLoop) -> None:
        self._answering: asyncio.Task[None] | None = None

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._answering = loop.create_task(_serve(handler, reader, writer))

        super().__init__(asyncio.StreamReader(limit=MOST_HEADER_BYTES, loop=loop), begin, loop=loop)

    def eof_received(self) -> bool:  # type: ignore[explicit-override] # Python 3.10 has no `override`
        super().eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # type: ignore[explicit-override]
        super().connection_lost(exc)
        if self._answering is not None:
            self._answering.cancel()


async def _serve(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection until its end."""
    try:
        while (request := await _read(reader, writer)) is not None:
            await _write(writer, await handler(request))
            if request.headers.get("connection", "").lower() == "close":
                break
    except (OSError, asyncio.IncompleteReadError):
        pass
    except (ValueError, asyncio.LimitOverrunError):
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = b""
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    elif length := int(headers.get("content-length", "0")):
        body = await reader.readexactly(length)
    return Request(method=method, path=target.partition("?")[0], headers=headers, body=body)


async def _write(writer: asyncio.StreamWriter, answer: Answer) -> None:
    streamed = answer.events is not None
    kind = "text/event-stream; charset=utf-8" if streamed else answer.kind
    length = "transfer-encoding: chunked" if streamed else f"content-length: {len(answer.body)}"
    status = f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"
    writer.write(f"{status}\r\nserver: uvicorn\r\ncontent-type: {kind}\r\n{length}\r\n\r\n".encode() + answer.body)
    if answer.events is not None:
        await _stream(writer, answer.events)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, events: AsyncGenerator[str, None]) -> None:
    async with aclosing(events) as open_events:
        async for event in open_events:
            data = f"data: {event}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
    writer.write(b"0\r\n\r\n")
