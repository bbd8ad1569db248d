"""Whatever comes, from whichever side and in whichever pieces: no fault, no hang, and what passes is whole."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shell.endpoint.chunks import BadChunk, ChunkScanner
from tests.shell.endpoint_world import (
    OK,
    FakeServer,
    World,
    ends_early,
    get,
    read_message,
    run,
    says,
    status_of,
)

CHUNKED = st.lists(st.binary(min_size=1, max_size=40), max_size=5).map(
    lambda parts: b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
)
CUTS = st.lists(st.integers(1, 12), max_size=40)
PIECES = st.sampled_from(
    (
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.1\r\n",
        b"Host: e\r\n",
        b"\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: ,x\r\n",
        b"Expect: 100-continue\r\n",
        b": \r\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204 No\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    )
)
NOISE = st.lists(PIECES | st.binary(max_size=8), max_size=12).map(b"".join)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in cuts:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in (*pieces, data[at:]) if piece]


@given(CHUNKED, st.binary(max_size=20), CUTS)
def test_the_end_of_a_chunked_body_does_not_depend_on_how_it_comes(body: bytes, rest: bytes, cuts: list[int]) -> None:
    scanner, used = ChunkScanner(), 0
    for piece in cut(body + rest, cuts):
        if not scanner.done:
            used += scanner.feed(piece)
    assert (used, scanner.done) == (len(body), True)


@given(st.binary(max_size=60))
def test_noise_is_not_a_chunked_body_or_has_an_end_within(noise: bytes) -> None:
    scanner = ChunkScanner()
    try:
        used = scanner.feed(noise)
    except BadChunk:
        return
    assert used <= len(noise)
    assert scanner.done or used == len(noise)


@settings(max_examples=25)
@given(st.lists(st.tuples(NOISE, CUTS), min_size=8, max_size=8))
@pytest.mark.parametrize("plain_loop", [False, True], ids=["uvloop", "asyncio"])
def test_noise_from_clients_disturbs_nobody(plain_loop: bool, noises: list[tuple[bytes, list[int]]]) -> None:
    async def story(world: World) -> None:
        for noise, cuts in noises:
            reader, writer = await world.connect()
            for piece in cut(noise, cuts):
                writer.write(piece)
                await asyncio.sleep(0)
            writer.write_eof()
            await ends_early(reader)
            writer.close()
        assert await world.ask(get()) == OK
        await world.until(lambda: world.endpoint.exchanges == 0)
        assert world.endpoint.in_flight == [0]

    run(story, FakeServer(), plain_loop=plain_loop)


@settings(max_examples=25)
@given(st.lists(NOISE, min_size=6, max_size=6))
@pytest.mark.parametrize("plain_loop", [False, True], ids=["uvloop", "asyncio"])
def test_noise_from_servers_is_an_answer_or_502(plain_loop: bool, noises: list[bytes]) -> None:
    async def story(world: World) -> None:
        for number, noise in enumerate(noises):
            server = await FakeServer(says(noise, close=True)).start()
            world.servers.append(server)
            world.use(server, first=number)
            reader, writer = await world.connect()
            writer.write(get())
            # unless it began well and broke off
            with suppress(asyncio.IncompleteReadError, ConnectionResetError, ValueError):
                assert status_of(await read_message(reader)) in (200, 204, 502)
            writer.close()
        await world.until(lambda: world.endpoint.exchanges == 0)
        assert not any(world.endpoint.in_flight)

    run(story, plain_loop=plain_loop)
