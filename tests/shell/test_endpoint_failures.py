"""What becomes of requests when servers are full or dead."""

import asyncio
import socket

import pytest
from typing_extensions import override

from tests.shell.endpoint_world import (
    BOTH_LOOPS,
    OK,
    FakeServer,
    World,
    Writer,
    body_of,
    get,
    header,
    post,
    retries,
    run,
    says,
    status_of,
)

FULL = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"


def answer_of(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


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
