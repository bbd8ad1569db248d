"""Who may ask, what servers are shown, and what can be seen of it all."""

import json
from pathlib import Path

import pytest

from core.endpoint_spec import EndpointSpec
from core.units import Alias, Port
from shell.endpoint.tokens import UnusableToken, read_tokens
from tests.shell.endpoint_world import FakeServer, World, body_of, get, header, post, run, status_of

CLIENT, SERVER = b"client-secret", b"server-secret"


@pytest.mark.parametrize(
    "shown",
    [
        (),
        (b"Authorization: Bearer wrong",),
        (b"Authorization: Bearer client-secre",),
        (b"Authorization: Bearer client-secret2",),
        (b"Authorization: Basic client-secret",),
        (b"Authorization: client-secret",),
        (b"Authorization: Bearer",),
        (b"Authorization: Bearer \xff\xfe",),
        (b"Authorization: Bearer client-secret", b"Authorization: Bearer wrong"),
        (b"X-Api-Key: client-secret",),
    ],
)
def test_strangers_get_401_and_nothing_is_forwarded(shown: tuple[bytes, ...]) -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        answer = await world.ask(post(b"{}", *shown))
        assert (status_of(answer), header(answer, b"WWW-Authenticate")) == (401, [b"Bearer"])
        assert b"secret" not in answer
        assert status_of(await world.ask(get(b"/metrics", *shown))) == 401
        assert status_of(await world.ask(get(b"/health", *shown))) == 200

    run(story, server, client_token=CLIENT, server_token=SERVER)
    assert server.connections == 0


@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer"])
def test_servers_are_shown_their_own_token(scheme: bytes) -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        assert status_of(await world.ask(post(b"{}", b"Authorization: " + scheme + b" client-secret"))) == 200

    run(story, server, client_token=CLIENT, server_token=SERVER)
    assert header(server.requests[0], b"Authorization") == [b"Bearer server-secret"]
    assert b"client-secret" not in server.requests[0]


def test_without_tokens_the_clients_own_header_travels() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        await world.ask(post(b"{}", b"Authorization: Bearer mine"))

    run(story, server)
    assert header(server.requests[0], b"Authorization") == [b"Bearer mine"]


def test_a_client_token_is_not_for_servers_that_want_none() -> None:
    server = FakeServer()

    async def story(world: World) -> None:
        await world.ask(post(b"{}", b"Authorization: Bearer client-secret"))

    run(story, server, client_token=CLIENT)
    assert header(server.requests[0], b"Authorization") == []


def test_no_secret_is_logged_and_no_query(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"

    async def story(world: World) -> None:
        await world.ask(post(b"{}", b"Authorization: Bearer client-secret", path=b"/v1/x?key=hidden"))
        await world.ask(post(b"{}", b"Authorization: Bearer guess"))
        page = await world.ask(get(b"/metrics", b"Authorization: Bearer client-secret"))
        assert b"secret" not in page

    run(story, FakeServer(), client_token=CLIENT, server_token=SERVER, access_log=str(log))
    text = log.read_text()
    assert not any(word in text for word in ("secret", "guess", "hidden"))
    records = [json.loads(line) for line in text.splitlines()]
    assert [(r["path"], r["status"], r["outcome"], r["backend"]) for r in records] == [
        ("/v1/x", 200, "answered", "s-0"),
        ("/v1/x", 401, "unauthorized", None),
    ]
    assert log.stat().st_mode & 0o777 == 0o600


def test_figures_for_prometheus() -> None:
    async def story(world: World) -> None:
        world.load(0, waiting=3, running=5)
        await world.ask(post())
        world.load(1, waiting=200)
        page = body_of(await world.ask(get(b"/metrics"))).decode()
        for line in (
            'dd_endpoint_requests_total{status="200",outcome="answered"} 1',
            'dd_endpoint_backend_in_flight{backend="s-0"} 0',
            'dd_endpoint_backend_waiting{backend="s-0"} 3',
            'dd_endpoint_backend_state{backend="s-1",state="full"} 1',
            'dd_endpoint_backend_unsampled{backend="s-1"} 0',
            'dd_endpoint_request_seconds_bucket{le="+Inf"} 1',
            "dd_endpoint_in_flight 0",
        ):
            assert line in page.splitlines()

    run(story, FakeServer(), FakeServer())


@pytest.mark.parametrize(("mode", "text"), [(0o640, "x"), (0o604, "x"), (0o600, ""), (0o600, "a b"), (0o600, "é")])
def test_token_files_that_are_not_safe_to_use(tmp_path: Path, mode: int, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    spec = EndpointSpec(
        alias=Alias("a"),
        served_name="m",
        address="127.0.0.1",
        port=Port(0),
        client_token_file=str(path),
        server_token_file=None,
        max_waiting=None,
    )
    with pytest.raises(UnusableToken) as caught:
        read_tokens(spec)
    assert "a b" not in str(caught.value)
