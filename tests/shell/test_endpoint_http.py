"""HTTP as it is meant: what passes through the endpoint is what was sent, and what is not HTTP does not pass."""

import asyncio

import pytest

from tests.shell.endpoint_world import (
    BOTH_LOOPS,
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


@BOTH_LOOPS
def test_a_request_passes_byte_for_byte(plain_loop: bool) -> None:
    server = FakeServer()
    sent = (
        b"POST /v1/%7Euser/a%2Fb/../c?q=%20x&q=%C3%A9&empty HTTP/1.1\r\nHost: e\r\nX-One: a\r\nx-two:  spaced \r\n"
        b"X-One: b\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n\x00\xff{}"
    )

    async def story(world: World) -> None:
        assert await world.ask(sent) == OK

    run(story, server, plain_loop=plain_loop)
    assert server.requests == [sent]


@BOTH_LOOPS
def test_an_answer_passes_byte_for_byte(plain_loop: bool) -> None:
    answer = (
        b"HTTP/1.1 200 All Right\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Odd:\tx\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x00\r\n"
    )

    async def story(world: World) -> None:
        assert await world.ask(get()) == answer

    run(story, FakeServer(says(answer)), plain_loop=plain_loop)


def test_what_is_for_one_hop_does_not_travel() -> None:
    server = FakeServer(
        says(b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 0\r\n\r\n")
    )

    async def story(world: World) -> None:
        hop = (b"Connection: keep-alive, X-Private", b"X-Private: 1", b"TE: trailers", b"Keep-Alive: 5", b"X-Public: 2")
        answer = await world.ask(get(b"/", *hop))
        assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    run(story, server)
    assert server.requests == [b"GET / HTTP/1.1\r\nHost: e\r\nX-Public: 2\r\n\r\n"]


def test_naming_the_length_in_connection_does_not_remove_it() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        assert status_of(await world.ask(post(b"abc", b"Connection: content-length, host"))) == 200

    run(story, server)
    assert body_of(server.requests[0]) == b"abc"


def test_nothing_is_said_about_encodings_that_the_client_did_not_say() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        await world.ask(get())

    run(story, server)
    assert server.requests == [get()]


@BOTH_LOOPS
def test_chunks_pass_both_ways_with_their_trailers(plain_loop: bool) -> None:
    body = b"3\r\nabc\r\n5;note=1\r\nde\r\nf\r\n0\r\nX-Sum: 1\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-End: 1\r\n\r\n"
    server = FakeServer(says(answer))
    request = b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n" + body

    async def story(world: World) -> None:
        assert await world.ask(request) == answer
        reader, writer = await world.connect()
        for byte in range(len(request)):
            writer.write(request[byte : byte + 1])
            await asyncio.sleep(0)
        assert await read_message(reader) == answer
        writer.close()

    run(story, server, plain_loop=plain_loop)
    assert server.requests == [request, request]


def test_one_connection_serves_many_requests_on_both_sides() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for number in range(20):
            writer.write(post(b"%d" % number))
            assert await read_message(reader) == OK
        writer.close()

    run(story, server)
    assert [body_of(request) for request in server.requests] == [b"%d" % n for n in range(20)]
    assert server.connections == 1


def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def echo(server: FakeServer, request: bytes, writer: Writer) -> None:
        body = body_of(request)
        await asyncio.sleep(0.01 if body == b"first" else 0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        chunked = b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(post(b"first") + get(b"/health") + post(b"second") + post(b"third"))
        writer.write(chunked + b"1\r\nx\r\n0\r\n\r\n" + post(b"last"))
        answers = [await read_message(reader) for _ in range(6)]
        assert [body_of(answer) for answer in answers[:4]] == [b"first", b"", b"second", b"third"]
        assert body_of(answers[5]) == b"last"
        writer.close()

    server = FakeServer(echo)
    run(story, server, FakeServer(echo))


def test_pipelined_answers_with_large_bodies_stay_apart() -> None:
    async def echo(server: FakeServer, request: bytes, writer: Writer) -> None:
        body = body_of(request) * 20_000
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"".join(post(b"%03d" % number) for number in range(100)))
        for number in range(100):
            assert body_of(await read_message(reader)) == b"%03d" % number * 20_000
        writer.close()

    run(story, FakeServer(echo))


@pytest.mark.parametrize("head", [b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5"])
def test_answers_without_a_body_end_with_their_head(head: bytes) -> None:
    server = FakeServer(says(head + b"\r\n\r\n"))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for _ in range(3):
            writer.write(get())
            assert await read_message(reader) == head + b"\r\n\r\n"
        writer.close()

    run(story, server)
    assert server.connections == 1


def test_the_answer_to_a_head_request_has_no_body_whatever_its_length_says() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    server = FakeServer(says(answer))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for _ in range(3):
            writer.write(b"HEAD / HTTP/1.1\r\nHost: e\r\n\r\n")
            assert await read_message(reader, to_head=True) == answer
        writer.close()

    run(story, server)
    assert server.connections == 1


def test_expect_is_answered_before_the_body_is_sent() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: e\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert await read_message(reader) == OK
        writer.close()

    run(story, server)
    assert server.requests == [b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 2\r\n\r\n{}"]


def test_who_is_refused_is_not_asked_for_the_body() -> None:
    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: e\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        answer = await read_message(reader)
        assert status_of(answer) == 401
        assert header(answer, b"Connection") == [b"close"]
        assert await reader.read() == b""
        writer.close()

    run(story, FakeServer(), client_token=b"secret")


def test_hints_of_a_server_reach_the_client_and_its_continue_does_not() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    server = FakeServer(says(b"HTTP/1.1 100 Continue\r\n\r\n" + hint + OK))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(get())
        assert await reader.readexactly(len(hint + OK)) == hint + OK
        writer.close()

    run(story, server)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 3, 3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: -3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: +3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nBad Name: 1\r\n\r\n", 400),
        (b"GET / HTTP/3.7\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: e\r\nX-Long: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: e\r\nX-Endless: " + b"x" * 70_000, 431),
    ],
)
def test_what_is_not_clearly_one_request_is_refused_and_ends_the_connection(raw: bytes, status: int) -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(raw)
        answer = await read_message(reader)
        assert status_of(answer) == status
        assert header(answer, b"Connection") == [b"close"]
        assert await reader.read() == b""
        writer.close()
        await world.until(lambda: not world.endpoint.clients)
        assert not any(world.endpoint.in_flight)

    run(story, server)
    assert server.requests == []


def test_bodies_have_a_limit_where_one_is_set() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        assert status_of(await world.ask(post(b"x" * 100))) == 200
        assert status_of(await world.ask(post(b"x" * 101))) == 413
        chunked = b"POST / HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert status_of(await world.ask(chunked + b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n")) == 413

    run(story, server, max_body_bytes=100)
    assert len(server.requests) == 1


def test_an_old_client_gets_its_answer_without_chunks() -> None:
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    server = FakeServer(says(chunks))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"GET /x HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        assert (status_of(answer), body_of(answer)) == (200, b"abcde")
        assert header(answer, b"Transfer-Encoding") == []
        writer.close()

    run(story, server)
    assert server.requests == [b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"]


def test_an_answer_that_ends_with_its_connection_ends_so_for_the_client() -> None:
    server = FakeServer(says(b"HTTP/1.1 200 OK\r\n\r\n", b"until ", b"the end", close=True))

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(get())
        answer = await reader.read()
        assert body_of(answer) == b"until the end"
        assert header(answer, b"Connection") == [b"close"]
        writer.close()

    run(story, server)


def test_a_client_that_asks_to_close_is_closed() -> None:
    async def story(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(get(b"/", b"Connection: close"))
        answer = await reader.read()
        assert (body_of(answer), header(answer, b"Connection")) == (b"ok", [b"close"])
        writer.close()

    run(story, FakeServer())


def test_an_offer_to_upgrade_is_not_taken() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        assert await world.ask(get(b"/", b"Connection: Upgrade", b"Upgrade: h2c")) == OK

    run(story, server)
    assert server.requests == [b"GET / HTTP/1.1\r\nHost: e\r\n\r\n"]


def test_an_early_answer_reaches_a_client_that_is_still_sending() -> None:
    async def story(world: World) -> None:
        async def serve(reader: asyncio.StreamReader, writer: Writer) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
            await reader.read()
            writer.close()

        early = await asyncio.start_server(serve, "127.0.0.1", 0)
        world.use(FakeServer(port=early.sockets[0].getsockname()[1]))
        reader, writer = await world.connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: e\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 1000)
        assert status_of(await read_message(reader)) == 413
        writer.write(b"x" * 1000)
        assert await ends_early(reader) == b""
        writer.close()
        await world.until(lambda: world.endpoint.in_flight[0] == 0)
        early.close()

    run(story)
