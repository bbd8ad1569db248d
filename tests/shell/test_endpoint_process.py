"""The endpoint as a process: start file, control lines, spoken lines, and how it ends."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Owner:
    """Starts an endpoint and talks to it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        for name in ("client", "server"):
            (folder / name).write_text(f"{name}-token\n")
            (folder / name).chmod(0o600)
        spec = {
            "alias": "writer",
            "served_name": "m",
            "address": "127.0.0.1",
            "port": 0,
            "client_token_file": str(folder / "client"),
            "server_token_file": str(folder / "server"),
            "max_waiting": 128,
            "grace_ms": 5_000,
            **options,
        }
        path = folder / "endpoint.json"
        path.write_text(json.dumps(spec))
        argv = [sys.executable, "-m", "shell.endpoint", "--config", str(path)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read().decode()
        heard: dict[str, Any] = json.loads(line)
        return heard

    def say(self, line: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def use(self, *ports: int) -> None:
        backends = [{"id": f"writer-{n}.1", "url_host": "127.0.0.1", "port": port} for n, port in enumerate(ports)]
        self.say({"kind": "backends", "backends": backends})

    def end(self) -> tuple[int, str]:
        code = self.process.wait(20)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Accepts by hand."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        yield listener


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    started = Owner(tmp_path, events=str(tmp_path / "events.jsonl"))
    yield started
    started.close()


def ask(port: int, token: str = "client-token") -> int:
    """Head and body in two pieces: an answer that does not wait for the body must arrive all the same."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", "/v1/x", b"{}", {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def refuses(port: int) -> bool:
    """Whether it says 503. A connection without a request is closed when draining begins, as HTTP allows."""
    try:
        return ask(port) == 503
    except ConnectionError:
        return False


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def in_background(port: int) -> tuple[threading.Thread, list[int]]:
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(ask(port)))
    thread.start()
    return thread, statuses


def test_it_says_where_it_listens_and_obeys(owner: Owner, server: socket.socket, tmp_path: Path) -> None:
    heard = owner.hear()
    assert (heard["kind"], heard["address"]) == ("listening", "127.0.0.1")
    owner.say({"kind": "nonsense"})
    owner.use(server.getsockname()[1])
    assert owner.hear() == {"kind": "backend", "id": "writer-0.1", "state": "alive", "reason": ""}
    thread, statuses = in_background(heard["port"])
    connection, _ = server.accept()
    request = connection.recv(65_536)
    connection.sendall(OK)
    thread.join()
    assert statuses == [200]
    assert b"Bearer server-token" in request
    owner.say({"kind": "load", "id": "writer-0.1", "waiting": 129, "running": 1, "state": "fine"})
    assert owner.hear()["state"] == "full"
    assert ask(heard["port"]) == 429
    owner.say({"kind": "load", "id": "writer-0.1", "waiting": 0, "running": 1, "state": "fine"})
    assert owner.hear()["state"] == "alive"
    connection.close()
    server.close()
    assert ask(heard["port"]) == 503
    assert owner.hear() == {"kind": "backend", "id": "writer-0.1", "state": "dead", "reason": "connection refused"}
    owner.process.send_signal(signal.SIGTERM)
    code, errors = owner.end()
    assert code == 0
    assert "control line not understood" in errors
    assert "token" not in errors
    said = [json.loads(line)["said"]["kind"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert said[:2] == ["listening", "backend"]


def test_term_lets_requests_in_flight_end(owner: Owner, server: socket.socket) -> None:
    port = owner.hear()["port"]
    owner.use(server.getsockname()[1])
    owner.hear()
    thread, statuses = in_background(port)
    connection, _ = server.accept()
    connection.recv(65_536)
    owner.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 20
    while listens(port) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not listens(port)
    assert owner.process.poll() is None
    connection.sendall(OK)
    thread.join()
    connection.close()
    assert statuses == [200]
    assert owner.end() == (0, "")


def test_an_orphan_ends_soon_whatever_is_in_flight(owner: Owner, server: socket.socket) -> None:
    port = owner.hear()["port"]
    owner.use(server.getsockname()[1])
    owner.hear()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: e\r\nAuthorization: Bearer client-token\r\nContent-Length: 0\r\n\r\n")
        connection, _ = server.accept()
        assert owner.process.stdin is not None
        owner.process.stdin.close()
        assert owner.end() == (0, "")
        connection.close()


def test_draining_refuses_new_requests_and_stays(owner: Owner) -> None:
    port = owner.hear()["port"]
    owner.say({"kind": "drain"})
    deadline = time.monotonic() + 20
    while not refuses(port) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [ask(port) for _ in range(20)] == [503] * 20
    assert owner.process.poll() is None


def test_a_taken_port_is_75_and_a_bad_start_file_78(tmp_path: Path, server: socket.socket) -> None:
    taken = Owner(tmp_path, port=server.getsockname()[1])
    code, errors = taken.end()
    taken.close()
    assert (code, "in use" in errors) == (75, True)
    unknown = Owner(tmp_path, max_waiting="many")
    code, errors = unknown.end()
    unknown.close()
    assert (code, "max_waiting" in errors) == (78, True)
    (tmp_path / "elsewhere").mkdir()
    exposed = Owner(tmp_path, client_token_file=str(tmp_path / "open"))
    code, errors = exposed.end()
    exposed.close()
    assert (code, "open" in errors) == (78, True)
