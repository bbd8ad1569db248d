"""What is remembered of heads is what reading them anew would give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shell.endpoint.answer_head import AnswerHeads, BadAnswer
from shell.endpoint.request_head import Credentials, HeadFault, RequestHeads
from tests.shell.endpoint_world import OK, FakeServer, World, body_of, post, read_message, run, status_of

CREDENTIALS = Credentials(client_token=b"right", cut_client=True, line=b"\r\nAuthorization: Bearer server")
LENGTH_NAMES = st.sampled_from([b"Content-Length: ", b"content-length: ", b"CONTENT-LENGTH: ", b"Content-Length:"])
LENGTHS = st.sampled_from([b"0", b"1", b"5", b"05", b"12", b"", b"x", b"#", b"5 ", b"5\t", b"9" * 15, b"9" * 16, b"-1"])
LINES = st.lists(
    st.one_of(
        st.builds(bytes.__add__, LENGTH_NAMES, LENGTHS),
        st.sampled_from(
            [
                b"X: Content-Length: 7",
                b"Authorization: Bearer right",
                b"Authorization: Bearer wrong",
                b"Connection: close",
                b"Connection: Content-Length",
                b"Transfer-Encoding: chunked",
            ]
        ),
    ),
    max_size=3,
)
STARTS = st.sampled_from([b"POST /x HTTP/1.1", b" POST /x HTTP/1.1", b"GET /health HTTP/1.1", b"POST /x HTTP/1.0"])


def a_head(start: bytes, lines: list[bytes]) -> bytes:
    return b"\r\n".join((start, b"Host: e", *lines, b"", b""))


@given(st.lists(st.builds(a_head, STARTS, LINES), min_size=2, max_size=8))
def test_the_order_in_which_requests_come_changes_nothing(raws: list[bytes]) -> None:
    heads = RequestHeads(CREDENTIALS)
    for raw in (*raws, *raws):
        got, anew = heads.read(raw), RequestHeads(CREDENTIALS).read(raw)
        if isinstance(got, HeadFault) or isinstance(anew, HeadFault):
            assert got == anew
        else:
            assert (got[0].forward(got[1]), got[1]) == (anew[0].forward(anew[1]), anew[1])
            assert (got[0].is_authorized, got[0].is_plain) == (anew[0].is_authorized, anew[0].is_plain)


@given(
    st.lists(st.builds(a_head, st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.0 204 x"]), LINES), min_size=2, max_size=8)
)
def test_the_order_in_which_answers_come_changes_nothing(raws: list[bytes]) -> None:
    heads = AnswerHeads()
    for raw in (*raws, *raws):
        try:
            anew = AnswerHeads().read(raw)
        except BadAnswer:
            with pytest.raises(BadAnswer):
                heads.read(raw)
        else:
            assert heads.read(raw) == anew


@pytest.mark.parametrize("digits", [b"", b"#", b"0x5", b"+5", b"5 5"])
def test_a_head_without_a_length_is_not_taken_for_one_that_has_one(digits: bytes) -> None:
    heads = RequestHeads(CREDENTIALS)
    for length in (b"5", b"0"):
        assert not isinstance(heads.read(a_head(b"POST / HTTP/1.1", [b"Content-Length: " + length])), HeadFault)
    assert isinstance(heads.read(a_head(b"POST / HTTP/1.1", [b"Content-Length: " + digits])), HeadFault)


def test_a_head_costs_memory_once_whatever_the_lengths_and_memory_is_bounded() -> None:
    heads = RequestHeads(CREDENTIALS)
    for length in range(3_000):
        heads.read(a_head(b"POST / HTTP/1.1", [b"Content-Length: %d" % length]))
    assert len(heads._remembered) == 1
    for number in range(3_000):
        heads.read(a_head(b"POST / HTTP/1.1", [b"X: %d" % number]))
    assert len(heads._remembered) <= 1_024


@pytest.mark.parametrize("name", [b"Content-Length", b"content-length", b"CoNtEnT-lEnGtH"])
def test_requests_that_differ_in_their_length_only_arrive_whole(name: bytes) -> None:
    server = FakeServer()
    bodies = [b"x" * size for size in (0, 1, 9, 10, 99, 3, 100_000, 2)]

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for body in bodies:
            writer.write(post(body).replace(b"Content-Length", name))
            assert await read_message(reader) == OK
        writer.close()

    run(story, server)
    assert server.requests == [post(body).replace(b"Content-Length", name) for body in bodies]


def test_a_token_that_was_right_before_makes_no_other_token_right() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        reader, writer = await world.connect()
        for token, status in ((b"right", 200), (b"wrong", 401), (b"right", 200), (b"", 401), (b"right ", 200)):
            writer.write(post(token, b"Authorization: Bearer " + token))
            assert status_of(await read_message(reader)) == status
        writer.close()

    run(story, server, client_token=b"right", server_token=b"server")
    assert [body_of(request) for request in server.requests] == [b"right", b"right", b"right "]
