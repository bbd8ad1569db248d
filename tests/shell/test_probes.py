"""Is it ready? Asked of small servers that answer as real ones do when something is wrong."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

import pytest
from typing_extensions import override

from core.plan.steps import Probe, url_of
from shell.attempt.probes import Foreign, NotYet, Serves, probe

NAMES = ("model", "run1.0.1.writer-0.1")
MODELS = json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in NAMES]}).encode()
HEALTHY: Mapping[str, tuple[int, bytes]] = {
    "/health": (200, b""),
    "/v1/models": (200, MODELS),
    "/v1/completions": (200, b'{"choices": [{"text": "x"}]}'),
}
Answers: TypeAlias = Mapping[str, tuple[int, bytes]]


class Server:
    """A server with fixed answers; `asked` are its requests with their tokens."""

    def __init__(self, answers: Answers, host: str) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                asked.append((self.command, self.path, self.headers["Authorization"]))
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                code, body = answers.get(self.path, (404, b""))
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815

            @override
            def log_message(self, format: str, *args: object) -> None:
                """Nothing: tests read `asked`."""

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kind = type("Listener", (ThreadingHTTPServer,), {"address_family": family})
        self.listener = kind((host, 0), Handler)
        self.port: int = self.listener.server_address[1]
        self.thread = threading.Thread(target=self.listener.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.listener.shutdown()
        self.thread.join()
        self.listener.server_close()


Serve: TypeAlias = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[Server] = []

    def start(host: str = "127.0.0.1", **answers: tuple[int, bytes]) -> Server:
        changed = {f"/{name.replace('_', '/')}": answer for name, answer in answers.items()}
        running.append(Server({**HEALTHY, **changed}, host))
        return running[-1]

    yield start
    for server in running:
        server.close()


def target(port: int, host: str = "127.0.0.1") -> Probe:
    return Probe(base_url=url_of(host, port), readiness_path="/health", names=NAMES)


def test_a_healthy_server_is_asked_three_times_with_the_token(serve: Serve) -> None:
    server = serve()
    assert probe(target(server.port), "t0ken") == Serves()
    assert server.asked == [
        ("GET", "/health", "Bearer t0ken"),
        ("GET", "/v1/models", "Bearer t0ken"),
        ("POST", "/v1/completions", "Bearer t0ken"),
    ]


def test_1_6_a_list_of_models_does_not_make_a_sick_server_ready(serve: Serve) -> None:
    server = serve(health=(503, b""))
    answer = probe(target(server.port), "t")
    assert isinstance(answer, NotYet)
    assert "503" in answer.why
    assert len(server.asked) == 1


@pytest.mark.parametrize("names", [["other"], ["model"], [NAMES[1]], []])
def test_1_1_another_server_on_the_port_is_foreign(serve: Serve, names: list[str]) -> None:
    listed = json.dumps({"data": [{"id": name} for name in names]}).encode()
    server = serve(v1_models=(200, listed))
    assert probe(target(server.port), "t") == Foreign(found=tuple(names), wanted=NAMES)


def test_more_names_than_wanted_are_fine(serve: Serve) -> None:
    listed = json.dumps({"data": [{"id": name} for name in (*NAMES, "an-adapter")]}).encode()
    assert probe(target(serve(v1_models=(200, listed)).port), "t") == Serves()


@pytest.mark.parametrize("code", [401, 403])
def test_a_server_with_another_token_is_foreign(serve: Serve, code: int) -> None:
    server = serve(v1_models=(code, b'{"error": "Unauthorized"}'))
    assert isinstance(probe(target(server.port), "t"), Foreign)


@pytest.mark.parametrize("code", [500, 502, 503, 429, 401, 302])
def test_an_engine_that_cannot_make_a_token_is_not_ready(serve: Serve, code: int) -> None:
    answer = probe(target(serve(v1_completions=(code, b"engine dead")).port), "t")
    assert isinstance(answer, NotYet)
    assert str(code) in answer.why


@pytest.mark.parametrize("code", [400, 404, 405, 422, 501])
def test_a_model_without_completions_is_ready(serve: Serve, code: int) -> None:
    assert probe(target(serve(v1_completions=(code, b"{}")).port), "t") == Serves()


@pytest.mark.parametrize(
    "listed",
    [
        (200, b"<html>"),
        (200, b""),
        (200, b"\xff\xfe\x00"),
        (200, b'{"data": [{"id": "\xff"}]}'),
        (200, b"[" * 50_000),
        (200, b'{"data": {}}'),
        (200, b'{"data": [{"id": 1}]}'),
        (500, MODELS),
        (404, b""),
        (302, MODELS),
    ],
)
def test_garbage_in_place_of_a_list_is_not_ready(serve: Serve, listed: tuple[int, bytes]) -> None:
    assert isinstance(probe(target(serve(v1_models=listed).port), "t"), NotYet)


def test_1_12_proxies_of_the_environment_are_ignored(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, server = serve(), serve()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert probe(target(server.port), "t") == Serves()
    assert len(server.asked) == 3
    assert proxy.asked == []


def test_2_4_an_ipv6_address_stands_in_brackets(serve: Serve) -> None:
    try:
        server = serve(host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert probe(target(server.port, "::1"), "t") == Serves()
    assert url_of("fd00::7", 8000) == "http://[fd00::7]:8000"


def test_nobody_there_is_not_ready() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert isinstance(probe(target(held.getsockname()[1]), "t"), NotYet)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    ],
)
def test_what_does_not_speak_http_is_not_ready(raw: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(raw)

        thread = threading.Thread(target=answer)
        thread.start()
        result = probe(target(listener.getsockname()[1]), "t")
        thread.join()
    assert isinstance(result, NotYet)
