"""How the stand-in starts, fails and ends: as real servers do, or as it is told."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.shell.node_world import until
from tests.shell.simulated import ROOT, Simulated, free_port, is_alive, simulated

PATIENCE_S = 20


def code(server: Simulated) -> int:
    return server.process.wait(PATIENCE_S)


def refuses_connections(server: Simulated) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", server.port)) != 0


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "shell.simulate", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_an_unknown_flag() -> None:
    ended = run("serve", "m", "--such")
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, "vllm: error: unrecognized arguments: --such")


def test_help_and_version() -> None:
    assert "--served-model-name" in run("serve", "--help").stdout
    assert run("--version").stdout.startswith("0.32")


def test_what_vllm_refuses_ends_with_1() -> None:
    ended = run("serve", "m", "--nnodes=2")
    assert (ended.returncode, "must evenly divide" in ended.stdout) == (1, True)


def test_term_ends_it_with_its_children(tmp_path: Path) -> None:
    with simulated(tmp_path) as server:
        children = server.children()
        assert len(children) == 2
        server.process.terminate()
        assert code(server) == 0
        assert not any(map(is_alive, children))
        assert "Application startup complete." in server.log


def test_killed_it_leaves_its_children_but_not_its_port(tmp_path: Path) -> None:
    with simulated(tmp_path) as server:
        children = server.children()
        server.process.kill()
        assert code(server) == -signal.SIGKILL
        assert all(map(is_alive, children))
        assert refuses_connections(server)


@pytest.mark.parametrize("which", [0, 1])
def test_when_a_child_dies_it_says_503_and_ends_with_0(tmp_path: Path, which: int) -> None:
    with simulated(tmp_path) as server, server.client() as client:
        os.kill(server.children()[which], signal.SIGKILL)
        until(lambda: client.get("/health").status_code == 503)
        assert client.get("/v1/models").status_code == 200
        assert server.chat(client).status_code == 500
        assert code(server) == 0
        assert "EngineDeadError" in server.log


def test_it_refuses_connections_while_it_loads(tmp_path: Path) -> None:
    with simulated(tmp_path, told={"hang_startup": True}, ready=False) as server:
        until(lambda: len(server.children()) == 2)
        assert refuses_connections(server)
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", server.port))  # bound early, as vLLM does
        server.process.terminate()
        assert code(server) == 0


def test_a_taken_port(tmp_path: Path) -> None:
    with simulated(tmp_path) as first, simulated(tmp_path, port=first.port, ready=False) as second:
        assert code(second) == 1
        assert "OSError: [Errno 98] Address already in use" in second.log
        assert first.is_ready()


def test_running_requests_end_within_the_shutdown_timeout(tmp_path: Path) -> None:
    told = {"ttft_ms": 300}
    with simulated(tmp_path, "--shutdown-timeout=20", told=told) as server, server.client() as client:
        with client.stream("POST", "/v1/completions", json={"prompt": "a", "stream": True}) as answer:
            server.process.terminate()
            assert answer.read().endswith(b"data: [DONE]\n\n")
        assert code(server) == 0


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        ({"at": "startup", "exit": 3}, 3),
        ({"at": "startup", "exit": "SIGKILL"}, -9),
        ({"at": "after_s", "count": 0.05, "exit": -11}, -11),
        ({"after_s": 0.05}, 1),
    ],
)
def test_told_to_fail(tmp_path: Path, fail: dict[str, Any], expected: int) -> None:
    with simulated(tmp_path, told={"fail": fail}, ready=False) as server:
        assert code(server) == expected


def test_told_what_its_log_says_last(tmp_path: Path) -> None:
    words = ["RuntimeError: CUDA error: out of memory", "RuntimeError: Engine core initialization failed."]
    with simulated(tmp_path, told={"fail": {"at": "startup", "says": words}}, ready=False) as server:
        assert code(server) == 1
        assert server.log.splitlines()[-2:] == words


def test_told_to_fail_after_some_requests(tmp_path: Path) -> None:
    told = {"fail": {"at": "after_requests", "count": 2, "exit": 4}}
    with simulated(tmp_path, told=told) as server, server.client() as client:
        assert [server.chat(client, str(number)).status_code for number in range(2)] == [200, 200]
        assert code(server) == 4


def test_told_to_stall_after_some_requests(tmp_path: Path) -> None:
    with simulated(tmp_path, told={"stall_after_requests": 1}) as server, server.client() as client:
        assert server.chat(client).status_code == 200
        made = server.figures()["vllm:generation_tokens_total"]
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/completions", json={"prompt": "a"}, timeout=0.3)
        assert server.figures()["vllm:generation_tokens_total"] == made
        assert client.get("/health").status_code == 200


def test_told_to_be_full(tmp_path: Path) -> None:
    with simulated(tmp_path, told={"full": 429}) as server, server.client() as client:
        assert server.chat(client).status_code == 429
        assert "vllm:admission_rejections_total" in client.get("/metrics").text


def test_only_who_is_meant_is_told(tmp_path: Path) -> None:
    told = [{"full": 429, "only": {"name": "other"}}, {"full": 503, "only": {"name": "me", "rank": 1}}]
    with simulated(tmp_path, "--served-model-name", "a", "me-0", told=told) as server, server.client() as client:
        assert server.chat(client).status_code == 200


def test_what_cannot_be_understood_is_said(tmp_path: Path) -> None:
    with simulated(tmp_path, told={"fail": {"at": "noon"}}, ready=False) as server:
        assert code(server) == 1
        assert "fail.at is one of startup, after_requests, after_s, now; found 'noon'" in server.log


def test_term_can_be_ignored(tmp_path: Path) -> None:
    with simulated(tmp_path, told={"ignore_term": True}) as server:
        server.process.terminate()
        assert server.is_ready()


def test_a_living_server_is_told(tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    order = orders / "run.1"
    order.write_text('{"full": 429}')  # older than the server: meant for an earlier one
    names = ("--served-model-name", "model", "run.1")
    environment = {"DD_SLURM_SIMULATE_CONTROL": str(orders)}
    with simulated(tmp_path, *names, environment=environment) as server, server.client() as client:
        assert server.chat(client).status_code == 200
        order.write_text('{"full": 5')  # half written
        order.write_text('{"full": 503}')
        until(lambda: server.chat(client).status_code == 503)
        order.write_text('{"full": null}')
        until(lambda: server.chat(client).status_code == 200)
        order.write_text('{"fail": {"at": "now", "exit": "SIGKILL"}}')
        assert code(server) == -signal.SIGKILL


def test_a_key_of_the_command_line(tmp_path: Path) -> None:
    with simulated(tmp_path, "--api-key", "one", "two") as server, server.client() as client:
        codes = [
            client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code for key in ("two", "three")
        ]
        assert codes == [200, 401]


def test_no_figures_when_they_are_off(tmp_path: Path) -> None:
    with simulated(tmp_path, "--disable-log-stats") as server, server.client() as client:
        assert "vllm:" not in client.get("/metrics").text


def test_it_listens_where_it_is_told(tmp_path: Path) -> None:
    port = free_port("127.0.1.2")
    with simulated(tmp_path, "--host=127.0.1.2", f"--port={port}", port=0, ready=False):
        until(lambda: _answers(f"http://127.0.1.2:{port}/health"))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
