"""Servers, clients and an endpoint in one event loop, for tests of the endpoint."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import uvloop

from core.endpoint_spec import BackendAddress, BackendState, EndpointSpec, LoadLine, SpokenLine, UseBackends
from core.units import Alias, Port
from shell.endpoint.client_connection import ClientConnection
from shell.endpoint.endpoint import Endpoint
from shell.endpoint.tokens import Tokens

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Script = Callable[["FakeServer", bytes, Writer], Awaitable[None]]

PATIENCE = 20.0
"""Nothing here takes long; a test that hangs is cut off."""

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HANGING_STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOTH_LOOPS = pytest.mark.parametrize("plain_loop", [False, True], ids=["uvloop", "asyncio"])


async def say_ok(server: "FakeServer", request: bytes, writer: Writer) -> None:
    writer.write(OK)


def says(*pieces: bytes, close: bool = False) -> Script:
    """A server that answers with these bytes."""

    async def script(server: "FakeServer", request: bytes, writer: Writer) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if close:
            writer.close()

    return script


@dataclass
class FakeServer:
    """Reads whole requests and answers as its script says; remembers what it got and who left."""

    script: Script = say_ok
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    left: int = 0
    port: int = 0
    readers: list[Reader] = field(default_factory=list)
    writers: list[Writer] = field(default_factory=list)
    _server: asyncio.Server | None = None

    async def start(self) -> "FakeServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 24, backlog=1_024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        self.readers.append(reader)
        self.writers.append(writer)
        try:
            while True:
                request = await read_message(reader)
                self.requests.append(request)
                await self.script(self, request, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left += 1
        finally:
            writer.close()


async def read_message(reader: Reader, to_head: bool = False) -> bytes:
    """One message with its body, as it was on the wire. A body without a length goes on until the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    answer = head.startswith(b"HTTP/")
    if answer and (to_head or lines[0].split(b" ")[1] in (b"204", b"304") or lines[0].split(b" ")[1][:1] == b"1"):
        return head
    if any(line.startswith(b"transfer-encoding") for line in lines):
        return head + await _read_chunks(reader)
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), None)
    if length is None:
        return head + (await reader.read() if answer else b"")
    return head + await reader.readexactly(length)


async def _read_chunks(reader: Reader) -> bytes:
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line
        if size == 0:
            while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                body += line
            return body + b"\r\n"
        body += await reader.readexactly(size + 2)


class World:
    """An endpoint and its servers. `said` is what it told its owner."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tokens: Tokens, **options: Any) -> None:
        defaults = {
            "alias": Alias("writer"),
            "served_name": "m",
            "address": "127.0.0.1",
            "port": Port(0),
            "client_token_file": None,
            "server_token_file": None,
            "max_waiting": 128,
        }
        self.said: list[SpokenLine] = []
        self.endpoint = Endpoint(EndpointSpec(**{**defaults, **options}), tokens, loop, self.said.append)
        self.servers: list[FakeServer] = []
        self.port = 0
        self.faults: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda loop, fault: self.faults.append(fault))

    async def start(self, *servers: FakeServer) -> None:
        loop = asyncio.get_running_loop()
        self.listener = await loop.create_server(lambda: ClientConnection(self.endpoint), "127.0.0.1", 0, backlog=1_024)
        self.port = self.listener.sockets[0].getsockname()[1]
        for server in servers:
            self.servers.append(await server.start())
        self.use(*self.servers)

    def use(self, *servers: FakeServer, first: int = 0) -> None:
        addresses = tuple(
            BackendAddress(id=f"s-{number}", url_host="127.0.0.1", port=Port(server.port))
            for number, server in enumerate(servers, first)
        )
        self.endpoint.obey(UseBackends(backends=addresses))

    def load(self, number: int, **figures: Any) -> None:
        line = {"id": f"s-{number}", "waiting": 0, "running": 0, "state": "fine", **figures}
        self.endpoint.obey(msgspec.convert(line, LoadLine))

    def states(self) -> list[tuple[str, str]]:
        return [(line.id, line.state) for line in self.said if isinstance(line, BackendState)]

    async def connect(self) -> tuple[Reader, Writer]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)

    async def ask(self, raw: bytes, to_head: bool = False) -> bytes:
        """One request over its own connection."""
        reader, writer = await self.connect()
        try:
            writer.write(raw)
            return await read_message(reader, to_head)
        finally:
            writer.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the others work until it is so."""
        while not condition():
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        self.listener.close()
        self.endpoint.close()
        for server in self.servers:
            await server.stop()
        for _ in range(5):
            await asyncio.sleep(0)


def get(path: bytes = b"/v1/x", *headers: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: e\r\n" + b"".join(h + b"\r\n" for h in headers) + b"\r\n"


def post(body: bytes = b"{}", *headers: bytes, path: bytes = b"/v1/x") -> bytes:
    fields = (b"Host: e", b"Content-Length: %d" % len(body), *headers)
    return b"POST " + path + b" HTTP/1.1\r\n" + b"".join(h + b"\r\n" for h in fields) + b"\r\n" + body


def run(
    story: Callable[[World], Coroutine[Any, Any, None]],
    *servers: FakeServer,
    plain_loop: bool = False,
    client_token: bytes | None = None,
    server_token: bytes | None = None,
    **options: Any,
) -> World:
    """Play a story in a fresh world, on uvloop or on asyncio's own loop."""

    async def play() -> World:
        world = World(asyncio.get_running_loop(), Tokens(client=client_token, server=server_token), **options)
        await world.start(*servers)
        try:
            async with asyncio.timeout(PATIENCE):
                await story(world)
        finally:
            await world.stop()
        return world

    factory = asyncio.new_event_loop if plain_loop else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        world = runner.run(play())
    assert not world.faults, world.faults
    return world


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def header(message: bytes, name: bytes) -> list[bytes]:
    lines = message.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [line.partition(b":")[2].strip() for line in lines if line.lower().startswith(name.lower() + b":")]


async def ends_early(reader: Reader) -> bytes:
    """What comes until the connection ends, in whatever way."""
    got = b""
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            got += data
    return got


def retries(world: World) -> dict[str, int]:
    """Why requests were sent elsewhere, and how often."""
    return dict(world.endpoint.counters.retries)
