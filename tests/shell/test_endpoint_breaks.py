"""What becomes of a request that a server has in its hands when one of the two sides goes away."""

import asyncio
import socket
import struct

import pytest

from tests.shell.endpoint_world import (
    BOTH_LOOPS,
    HANGING_STREAM,
    OK,
    FakeServer,
    World,
    Writer,
    body_of,
    ends_early,
    post,
    read_message,
    retries,
    run,
    status_of,
)


async def drop(server: FakeServer, request: bytes, writer: Writer) -> None:
    writer.close()


async def reset(server: FakeServer, request: bytes, writer: Writer) -> None:
    writer.transport.abort()


@pytest.mark.parametrize("death", [drop, reset], ids=["close", "reset"])
@BOTH_LOOPS
def test_a_request_that_a_server_took_and_dropped_is_delivered_once(death: object, plain_loop: bool) -> None:
    servers = [FakeServer(death), FakeServer(death), FakeServer(death)]  # type: ignore[arg-type]

    async def story(world: World) -> None:
        assert status_of(await world.ask(post(b"once"))) == 502

    world = run(story, *servers, plain_loop=plain_loop)
    assert [request for server in servers for request in server.requests] == [post(b"once")]
    assert retries(world) == {}


@pytest.mark.parametrize("death", [drop, reset], ids=["close", "reset"])
def test_the_same_over_a_connection_that_was_used_before(death: object) -> None:
    async def once_then_die(server: FakeServer, request: bytes, writer: Writer) -> None:
        if len(server.requests) == 1:
            writer.write(OK)
        else:
            await death(server, request, writer)  # type: ignore[operator]

    server = FakeServer(once_then_die)

    async def story(world: World) -> None:
        assert status_of(await world.ask(post(b"1"))) == 200
        assert status_of(await world.ask(post(b"2"))) == 502

    run(story, server)
    assert [body_of(request) for request in server.requests] == [b"1", b"2"]
    assert server.connections == 1


@BOTH_LOOPS
def test_a_server_that_closes_idle_connections_costs_nothing(plain_loop: bool) -> None:
    """It closes at the worst moment, just before the next request: that request goes over a new connection."""
    server = FakeServer()

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for number in range(30):
            writer.write(post(b"%d" % number))
            assert status_of(await read_message(reader)) == 200
            for other in server.writers:
                other.close()
            await asyncio.sleep(0)
        writer.close()

    run(story, server, plain_loop=plain_loop)
    assert [body_of(request) for request in server.requests] == [b"%d" % n for n in range(30)]


@BOTH_LOOPS
def test_a_close_that_crosses_the_request_is_no_answer_and_no_delivery(plain_loop: bool) -> None:
    """The server closes while the request is on its way: its kernel takes nothing of it, so it may be sent again."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)

    async def story(world: World) -> None:
        world.use(FakeServer(port=listener.getsockname()[1]))
        reader, writer = await world.connect()
        writer.write(post(b"1"))
        served, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(served.recv, 65_536)
        served.sendall(OK)
        assert status_of(await read_message(reader)) == 200
        pool = next(iter(world.endpoint.pools.values()))
        pool.idle[0].poll.unregister(pool.idle[0].descriptor)  # the look before the use finds nothing yet
        served.close()
        client = next(iter(world.endpoint.clients))
        client.data_received(post(b"2"))
        served, _ = await asyncio.to_thread(listener.accept)
        assert body_of(await asyncio.to_thread(served.recv, 65_536)) == b"2"
        served.sendall(OK)
        assert status_of(await read_message(reader)) == 200
        writer.close()
        served.close()

    world = run(story, plain_loop=plain_loop)
    listener.close()
    assert retries(world) == {"idle-closed": 1}
    assert ("s-0", "dead") not in world.states()


@pytest.mark.parametrize("break_off", ["close", "abort"])
@BOTH_LOOPS
def test_death_in_mid_stream_is_seen_by_the_client(break_off: str, plain_loop: bool) -> None:
    async def die(server: FakeServer, request: bytes, writer: Writer) -> None:
        writer.write(HANGING_STREAM + b"5\r\nhello\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
        getattr(writer.transport, break_off)()

    server = FakeServer(die)

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(post())
        got = await ends_early(reader)
        assert got == HANGING_STREAM + b"5\r\nhello\r\n"  # and no last chunk
        writer.close()

    world = run(story, server, plain_loop=plain_loop)
    assert len(server.requests) == 1
    assert ("s-0", "dead") in world.states()


def test_an_answer_that_ends_with_its_connection_does_not_end_cleanly_when_it_is_reset() -> None:
    async def die(server: FakeServer, request: bytes, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        await asyncio.sleep(0.02)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(post())
        assert body_of(await reader.readuntil(b"half")) == b"half"
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()

    run(story, FakeServer(die), plain_loop=True)


@pytest.mark.parametrize("begun", [False, True], ids=["before the answer", "in mid stream"])
@BOTH_LOOPS
def test_a_client_that_leaves_cancels_its_request(begun: bool, plain_loop: bool) -> None:
    async def stream(server: FakeServer, request: bytes, writer: Writer) -> None:
        if begun:
            writer.write(HANGING_STREAM + b"2\r\nhi\r\n")
            await writer.drain()
        assert await server.readers[0].read() == b""
        server.left += 1

    server = FakeServer(stream)

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(post())
        await world.until(lambda: len(server.requests) == 1)
        if begun:
            await reader.readuntil(b"hi")
        assert world.endpoint.in_flight[0] == 1
        writer.close()
        await world.until(lambda: server.left > 0)
        await world.until(lambda: world.endpoint.in_flight[0] == 0)

    world = run(story, server, plain_loop=plain_loop)
    assert world.endpoint.counters.requests == {(499, "client gone"): 1}


def test_a_client_that_leaves_while_a_connection_is_made_leaves_nothing_behind() -> None:
    full_backlog = socket.socket()
    full_backlog.bind(("127.0.0.1", 0))
    full_backlog.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(full_backlog.getsockname())
        fillers.append(filler)

    async def story(world: World) -> None:
        world.use(FakeServer(port=full_backlog.getsockname()[1]))
        _, writer = await world.connect()
        writer.write(post())
        await world.until(lambda: world.endpoint.exchanges == 1)
        writer.close()
        await world.until(lambda: world.endpoint.exchanges == 0)
        assert world.endpoint.in_flight[0] == 0

    run(story)
    for holder in (full_backlog, *fillers):
        holder.close()


def test_replacing_backends_does_not_disturb_requests_in_flight() -> None:
    release = asyncio.Event()

    async def wait(server: FakeServer, request: bytes, writer: Writer) -> None:
        await release.wait()
        writer.write(OK)

    old, new = FakeServer(wait), FakeServer()

    async def story(world: World) -> None:
        slow = asyncio.ensure_future(world.ask(post(b"slow")))
        await world.until(lambda: len(old.requests) == 1)
        await new.start()
        world.use(new, first=1)
        assert status_of(await world.ask(post(b"quick"))) == 200
        release.set()
        assert await slow == OK
        assert world.endpoint.in_flight == [0]
        await new.stop()

    run(story, old)
    assert [body_of(request) for request in new.requests] == [b"quick"]
