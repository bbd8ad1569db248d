"""Just enough of an HTTP/1.1 server for OpenAI clients: keep-alive, bodies, chunked answers. Standard library only."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
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
    headers: tuple[tuple[str, str], ...] = ()
    events: AsyncIterator[str] | None = None


Handler = Callable[[Request], Awaitable[Answer]]


def as_json(value: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """A JSON answer."""
    return Answer(status=status, body=json.dumps(value).encode(), headers=headers)


async def serve_connection(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection until its end."""
    try:
        while (request := await _read(reader)) is not None:
            await _write(writer, await handler(request))
            if request.headers.get("connection", "").lower() == "close":
                break
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        pass
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
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
    length = ("transfer-encoding", "chunked") if streamed else ("content-length", str(len(answer.body)))
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in (("content-type", kind), length, *answer.headers)]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + answer.body)
    if answer.events is not None:
        async for event in answer.events:
            data = f"data: {event}\n\n".encode()
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    await writer.drain()
