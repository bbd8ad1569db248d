"""Load: who is too busy is left alone, and a slow side stops the other one, so that nothing piles up between them."""

import asyncio

import pytest

from tests.shell.endpoint_world import (
    HANGING_STREAM,
    OK,
    FakeServer,
    World,
    Writer,
    body_of,
    get,
    post,
    read_message,
    run,
    says,
    status_of,
)


def test_the_sampler_turns_requests_away_and_lets_them_in_again() -> None:
    async def story(world: World) -> None:
        world.load(0, waiting=129, running=5)
        assert status_of(await world.ask(post())) == 429
        world.load(0, waiting=128, running=5)
        assert status_of(await world.ask(post())) == 200
        world.load(0, waiting=0, running=3, state="stalled")
        assert status_of(await world.ask(post())) == 503
        world.load(0, state="unavailable")
        assert status_of(await world.ask(post())) == 200

    world = run(story, FakeServer())
    assert [state for _, state in world.states()] == ["alive", "full", "alive", "stalled", "alive"]


def test_a_slow_reader_stops_the_server_instead_of_filling_memory() -> None:
    piece = b"x" * 65_536
    sent = 0

    async def flood(server: FakeServer, request: bytes, writer: Writer) -> None:
        nonlocal sent
        writer.write(HANGING_STREAM)
        for _ in range(1_024):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    async def story(world: World) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port, limit=1 << 12)
        writer.write(post())
        await world.until(lambda: any(client.write_paused for client in world.endpoint.clients))
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 512
        size = 0
        while not (data := await reader.read(1 << 20)).endswith(b"0\r\n\r\n"):
            size += len(data)
        assert sent == 1_024
        assert size + len(data) > 1_024 * len(piece)
        writer.close()

    run(story, FakeServer(flood))


def test_a_client_that_reads_nothing_does_not_get_further_answers_kept_for_it() -> None:
    body = b"x" * 200_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    server = FakeServer(says(answer))

    async def story(world: World) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port, limit=1 << 12)
        for number in range(200):
            writer.write(post(b"%d" % number))
        await world.until(lambda: any(client.write_paused for client in world.endpoint.clients))
        before = -1
        while before != len(server.requests):
            before = len(server.requests)
            await asyncio.sleep(0.05)
        assert before < 150
        for _ in range(200):
            await reader.readexactly(len(answer))
        assert len(server.requests) == 200
        writer.close()

    run(story, server)


def test_a_slow_server_stops_the_client() -> None:
    async def story(world: World) -> None:
        taken = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
            await taken.wait()
            await read_message(reader)
            writer.write(OK)
            await reader.read()
            writer.close()

        slow = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 12)
        world.use(FakeServer(port=slow.sockets[0].getsockname()[1]))
        reader, writer = await world.connect()
        writer.write(post(b"x" * (32 << 20)))
        await world.until(lambda: any(not client.reading for client in world.endpoint.clients))
        assert writer.transport.get_write_buffer_size() > 8 << 20
        taken.set()
        assert await read_message(reader) == OK
        writer.close()
        slow.close()

    run(story)


@pytest.mark.slow
def test_five_hundred_slow_streams_are_served_at_once() -> None:
    gate = asyncio.Event()

    async def stream(server: FakeServer, request: bytes, writer: Writer) -> None:
        writer.write(HANGING_STREAM + b"4\r\nwait\r\n")
        await gate.wait()
        writer.write(b"4\r\ndone\r\n0\r\n\r\n")

    servers = [FakeServer(stream) for _ in range(4)]

    async def story(world: World) -> None:
        asks = [asyncio.ensure_future(world.ask(post(b"%d" % n))) for n in range(500)]
        await world.until(lambda: sum(len(server.requests) for server in servers) == 500)
        assert world.endpoint.in_flight == [125] * 4
        assert status_of(await world.ask(get(b"/health"))) == 200
        gate.set()
        answers = await asyncio.gather(*asks)
        assert {body_of(answer) for answer in answers} == {b"4\r\nwait\r\n4\r\ndone\r\n0\r\n\r\n"}

    world = run(story, *servers)
    assert world.endpoint.counters.requests == {(200, "answered"): 500}
