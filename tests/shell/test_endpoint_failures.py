"""What becomes of requests when servers are full, dead, or die with a request in their hands."""

import asyncio
import socket
import struct

import pytest
from typing_extensions import override

from tests.shell.endpoint_world import (
    BOTH_LOOPS,
    HANGING_STREAM,
    OK,
    FakeServer,
    World,
    Writer,
    body_of,
    ends_early,
    get,
    header,
    post,
    read_message,
    run,
    says,
    status_of,
)

FULL = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"


def answer_of(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def retries(world: World) -> dict[str, int]:
    return dict(world.endpoint.counters.retries)


class Refuser(FakeServer):
    """A port where connections are refused: bound, so that nobody else gets it, and never listening."""

    holder: socket.socket

    @override
    async def start(self) -> FakeServer:
        self.holder = socket.socket()
        self.holder.bind(("127.0.0.1", 0))
        self.port = self.holder.getsockname()[1]
        return self

    @override
    async def stop(self) -> None:
        self.holder.close()


async def drop(server: FakeServer, request: bytes, writer: Writer) -> None:
    writer.close()


async def reset(server: FakeServer, request: bytes, writer: Writer) -> None:
    writer.transport.abort()


@BOTH_LOOPS
def test_half_of_the_servers_dead_costs_no_request(plain_loop: bool) -> None:
    alive = [FakeServer() for _ in range(4)]
    both = [server for one in alive for server in (Refuser(), one)]

    async def story(world: World) -> None:
        answers = await asyncio.gather(*(world.ask(post(b"%d" % n)) for n in range(200)))
        assert {status_of(answer) for answer in answers} == {200}

    world = run(story, *both, plain_loop=plain_loop)
    assert sorted(body_of(request) for server in alive for request in server.requests) == sorted(
        b"%d" % n for n in range(200)
    )
    assert retries(world)["refused"] >= 4
    assert {state for name, state in world.states() if state == "dead"} == {"dead"}


def test_half_of_the_servers_full_costs_no_request() -> None:
    free = [FakeServer() for _ in range(4)]
    full = [FakeServer(says(FULL)) for _ in range(4)]

    async def story(world: World) -> None:
        answers = await asyncio.gather(*(world.ask(post(b"%d" % n)) for n in range(100)))
        assert {status_of(answer) for answer in answers} == {200}

    world = run(story, *full, *free)
    assert sum(len(server.requests) for server in free) == 100
    assert retries(world)["full"] >= 4


@pytest.mark.parametrize(
    "answer",
    [FULL, answer_of(b"503 Service Unavailable", b"queue overflow"), answer_of(b"500 Oops", b"QueueOverflowError")],
    ids=["429", "503", "500"],
)
def test_all_full_is_429_with_retry_after(answer: bytes) -> None:
    servers = [FakeServer(says(answer)), FakeServer(says(answer))]

    async def story(world: World) -> None:
        got = await world.ask(post())
        assert (status_of(got), header(got, b"Retry-After")) == (429, [b"1"])
        assert (await world.ask(get(b"/health"))).startswith(b"HTTP/1.1 200")

    run(story, *servers)
    assert [len(server.requests) for server in servers] == [1, 1]


def test_a_full_server_has_room_when_one_of_its_requests_ends() -> None:
    gate = asyncio.Event()

    async def serve(server: FakeServer, request: bytes, writer: Writer) -> None:
        if body_of(request) == b"long":
            await gate.wait()
        writer.write(FULL if body_of(request) == b"too many" else OK)

    server = FakeServer(serve)

    async def story(world: World) -> None:
        long = asyncio.ensure_future(world.ask(post(b"long")))
        await world.until(lambda: len(server.requests) == 1)
        assert [status_of(await world.ask(post(b"too many"))) for _ in range(3)] == [429] * 3
        assert len(server.requests) == 2
        gate.set()
        assert await long == OK
        assert await world.ask(post(b"again")) == OK

    world = run(story, server)
    assert [state for _, state in world.states()] == ["alive", "full", "alive"]


def test_a_server_that_was_dead_is_tried_by_one_request_until_it_answers() -> None:
    gate = asyncio.Event()

    async def serve(server: FakeServer, request: bytes, writer: Writer) -> None:
        if body_of(request) == b"trial":
            await gate.wait()
        dead = answer_of(b"503 Service Unavailable", b"engine dead")
        writer.write(dead if body_of(request) == b"first" else OK)

    server = FakeServer(serve)

    async def story(world: World) -> None:
        assert status_of(await world.ask(post(b"first"))) == 503
        time = world.endpoint.loop.time
        world.endpoint.clock = lambda: time() + 0.3
        trial = asyncio.ensure_future(world.ask(post(b"trial")))
        await world.until(lambda: len(server.requests) == 2)
        assert status_of(await world.ask(post(b"not yet"))) == 503
        gate.set()
        assert await trial == OK
        assert await world.ask(post(b"now")) == OK

    world = run(story, server)
    assert [body_of(request) for request in server.requests] == [b"first", b"trial", b"now"]
    assert [state for _, state in world.states()] == ["alive", "dead", "probation", "alive"]


def test_a_dead_engine_is_told_to_the_client_and_not_asked_again() -> None:
    dead, alive = FakeServer(says(answer_of(b"503 Service Unavailable", b"engine dead"))), FakeServer()

    async def story(world: World) -> None:
        statuses = [status_of(await world.ask(post())) for _ in range(6)]
        assert sorted(statuses) == [200] * 5 + [503]

    world = run(story, dead, alive)
    assert len(dead.requests) == 1
    assert ("s-0", "dead") in world.states()


def test_an_ordinary_500_is_the_clients_business() -> None:
    async def story(world: World) -> None:
        answer = await world.ask(post())
        assert (status_of(answer), body_of(answer)) == (500, b"bug")

    assert ("s-0", "dead") not in run(story, FakeServer(says(answer_of(b"500 Oops", b"bug")))).states()


def test_nobody_there_is_503_with_retry_after_and_health_says_so() -> None:
    async def story(world: World) -> None:
        world.use()
        answer = await world.ask(post())
        assert (status_of(answer), header(answer, b"Retry-After")) == (503, [b"10"])
        assert status_of(await world.ask(get(b"/health"))) == 503
        world.use(*world.servers, first=1)
        assert status_of(await world.ask(post())) == 503

    run(story, Refuser())


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


def test_a_body_too_long_to_keep_is_passed_on_but_not_sent_twice() -> None:
    body = bytes(range(256)) * 16_384  # 4 MiB
    servers = [FakeServer(says(FULL)), FakeServer(says(FULL))]
    good = FakeServer()

    async def story(world: World) -> None:
        got = await world.ask(post(body))
        assert (status_of(got), header(got, b"Retry-After")) == (429, [b"7"])
        await good.start()
        world.use(good, first=5)
        assert status_of(await world.ask(post(body))) == 200
        await good.stop()

    run(story, *servers)
    assert sorted(len(server.requests) for server in servers) == [0, 1]
    assert body_of(good.requests[0]) == body
