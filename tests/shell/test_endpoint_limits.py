"""Time, size and number: who is too slow, what is idle for too long, and how many are served at once, evenly."""

import asyncio

import pytest

from shell.endpoint.pool import IDLE_SECONDS
from tests.shell.endpoint_world import (
    BOTH_LOOPS,
    HANGING_STREAM,
    OK,
    FakeServer,
    World,
    Writer,
    get,
    header,
    post,
    read_message,
    run,
    status_of,
)


async def hold(server: FakeServer, request: bytes, writer: Writer) -> None:
    """Begin a stream and say no more."""
    writer.write(HANGING_STREAM + b"4\r\nwait\r\n")


def test_a_head_that_does_not_come_in_time_is_408() -> None:
    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost:")
        await world.until(lambda: any(client.buffer for client in world.endpoint.clients))
        (client,) = world.endpoint.clients
        client.sweep(client.since + 29)
        assert client.state == "head"
        client.sweep(client.since + 31)
        answer = await read_message(reader)
        assert (status_of(answer), header(answer, b"Connection")) == (408, [b"close"])
        assert await reader.read() == b""
        writer.close()

    run(story, FakeServer())


def test_a_connection_that_is_idle_between_requests_is_left_alone() -> None:
    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(post())
        assert await read_message(reader) == OK
        (client,) = world.endpoint.clients
        client.sweep(client.since + 10_000)
        writer.write(post())
        assert await read_message(reader) == OK
        writer.close()

    run(story, FakeServer())


def test_who_does_not_close_after_a_refusal_is_cut_off() -> None:
    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"no request at all\r\n\r\n")
        assert status_of(await read_message(reader)) == 400
        (client,) = world.endpoint.clients
        client.sweep(client.since + 3)
        await world.until(lambda: not world.endpoint.clients)
        writer.close()

    run(story, FakeServer())


@BOTH_LOOPS
def test_a_client_that_ends_its_side_has_gone(plain_loop: bool) -> None:
    server = FakeServer(hold)

    async def story(world: World) -> None:
        _, writer = await world.connect()
        writer.write(post())
        await world.until(lambda: world.endpoint.in_flight == [1])
        writer.write_eof()
        await world.until(lambda: world.endpoint.in_flight == [0])
        assert await server.readers[0].read() == b""
        writer.close()

    world = run(story, server, plain_loop=plain_loop)
    assert world.endpoint.counters.requests == {(499, "client gone"): 1}


def test_connections_to_servers_are_closed_before_servers_close_them() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        assert status_of(await world.ask(post())) == 200
        (pool,) = world.endpoint.pools.values()
        pool.idle[0].idle_since -= IDLE_SECONDS / 2
        assert status_of(await world.ask(post())) == 200
        assert server.connections == 1
        pool.idle[0].idle_since -= IDLE_SECONDS
        assert status_of(await world.ask(post())) == 200
        assert server.connections == 2
        pool.idle[0].idle_since -= IDLE_SECONDS
        world.endpoint.sweep()
        assert pool.idle == []
        await world.until(lambda: server.left == 2)

    run(story, server)


@pytest.mark.slow
@BOTH_LOOPS
def test_fifteen_hundred_slow_streams_fill_servers_evenly_up_to_the_limit_and_the_rest_is_429_at_once(
    plain_loop: bool,
) -> None:
    """Every server has 100 places: it takes a request while no more than 100 wait there."""
    servers = [FakeServer(hold) for _ in range(8)]

    async def ask(world: World) -> tuple[int, list[bytes], Writer]:
        reader, writer = await world.connect()
        writer.write(post())
        head = await reader.readuntil(b"\r\n\r\n")
        return status_of(head), header(head, b"Retry-After"), writer

    async def story(world: World) -> None:
        for number in range(8):
            world.load(number, waiting=1)
        asked = [task for _ in range(15) for task in await asyncio.gather(*(ask(world) for _ in range(100)))]
        assert world.endpoint.in_flight == [100] * 8
        assert [len(server.requests) for server in servers] == [100] * 8
        assert [status for status, *_ in asked].count(200) == 800
        assert [after for status, after, _ in asked if status == 429] == [[b"1"]] * 700
        assert status_of(await world.ask(get(b"/health"))) == 200
        for _, _, writer in asked:
            writer.close()
        await world.until(lambda: not any(world.endpoint.in_flight))

    run(story, *servers, plain_loop=plain_loop, max_waiting=100)


def test_short_requests_are_not_kept_waiting_by_long_ones() -> None:
    """One server is busy with long streams: the others get the short requests, and all get their share of them."""

    async def serve(server: FakeServer, request: bytes, writer: Writer) -> None:
        if request.endswith(b"long"):
            await hold(server, request, writer)
        else:
            writer.write(OK)

    servers = [FakeServer(serve) for _ in range(4)]

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(post(b"long"))
        await reader.readuntil(b"wait\r\n")
        for _ in range(30):
            assert await world.ask(post()) == OK
        assert sorted(len(server.requests) for server in servers) == [1, 10, 10, 10]
        writer.close()

    run(story, *servers)


def test_clients_and_servers_may_use_ipv6() -> None:
    async def story(world: World) -> None:
        async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
            await read_message(reader)
            writer.write(OK)
            writer.close()

        from core.endpoint_spec import BackendAddress, UseBackends
        from core.units import Port
        from shell.endpoint.client_connection import ClientConnection

        try:
            server = await asyncio.start_server(serve, "::1", 0)
        except OSError:
            pytest.skip("this machine has no IPv6")
        port = Port(server.sockets[0].getsockname()[1])
        world.endpoint.obey(UseBackends(backends=(BackendAddress(id="six", url_host="::1", port=port),)))
        listener = await asyncio.get_running_loop().create_server(lambda: ClientConnection(world.endpoint), "::1", 0)
        reader, writer = await asyncio.open_connection("::1", listener.sockets[0].getsockname()[1])
        writer.write(post())
        assert await read_message(reader) == OK
        writer.close()
        server.close()
        listener.close()

    run(story)
