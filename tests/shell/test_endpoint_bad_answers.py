"""Servers that do not keep to HTTP: nothing of what they say reaches a client, least of all the wrong one."""

import asyncio
from functools import partial

import pytest

from tests.shell.endpoint_world import (
    OK,
    FakeServer,
    World,
    Writer,
    ends_early,
    post,
    read_message,
    run,
    says,
    status_of,
)


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
    ids=["garbage", "two lengths", "no length", "upgrade", "endless"],
)
def test_what_is_not_an_answer_does_not_reach_the_client(answer: bytes) -> None:
    async def story(world: World) -> None:
        assert status_of(await world.ask(post())) == 502

    run(story, FakeServer(says(answer)))


EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"


@pytest.mark.parametrize("framing", [b"Content-Length: 2\r\n\r\nok", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
def test_an_answer_with_another_one_behind_it_is_not_believed(framing: bytes) -> None:
    server = FakeServer(says(b"HTTP/1.1 200 OK\r\n" + framing + EVIL))

    async def story(world: World) -> None:
        assert status_of(await world.ask(post())) == 502

    run(story, server)


def test_what_comes_behind_a_body_in_pieces_does_not_reach_the_client() -> None:
    async def script(server: FakeServer, request: bytes, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(b"k!" + EVIL)

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(post())
        got = await ends_early(reader)
        assert got.endswith(b"\r\n\r\no")
        writer.close()

    run(story, FakeServer(script))


def test_an_answer_that_nobody_asked_for_reaches_nobody() -> None:
    async def late(server: FakeServer, request: bytes, writer: Writer) -> None:
        writer.write(OK)
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(EVIL)

    server = FakeServer(late)

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for number in range(3):
            writer.write(post(b"%d" % number))
            assert await read_message(reader) == OK
            await world.until(partial(lambda seen: server.left > seen, number))
        writer.close()

    run(story, server)
    assert server.connections == 3
