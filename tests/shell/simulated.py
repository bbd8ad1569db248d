"""Stand-in servers as processes, for tests. Every one has a session of its own, which is killed at the end."""

import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from tests.shell.node_world import until, worker_number

_ports = itertools.count(11_000 + 4_000 * worker_number() + os.getpid() % 3_000)
ROOT = pathlib.Path(__file__).parents[2]


class Simulated:
    """One process. `url` is where its API is, also before it listens."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: pathlib.Path) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def client(self, **more: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, **{"timeout": 20, **more})

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log
        try:
            return httpx.get(f"{self.url}/health", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def wait_until_ready(self) -> None:
        until(self.is_ready)

    def chat(self, client: httpx.Client, text: str = "Hello", **more: Any) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": text}], **more}
        return client.post("/v1/chat/completions", json=body)

    def children(self) -> list[int]:
        found = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(word) for word in found.split()]

    def sockets(self) -> int:
        """How many sockets the process has open."""
        found = 0
        for name in os.listdir(f"/proc/{self.process.pid}/fd"):
            with suppress(OSError):
                found += os.readlink(f"/proc/{self.process.pid}/fd/{name}").startswith("socket:")
        return found

    def figures(self) -> dict[str, float]:
        """The plain figures of the first engine, by name."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        rows = (line.rpartition(" ") for line in page.splitlines() if line.startswith("vllm:"))
        return {name.partition("{")[0]: float(value) for name, _, value in rows}


@contextmanager
def simulated(
    folder: pathlib.Path,
    *words: str,
    port: int | None = None,
    told: Any = None,
    ready: bool = True,
    environment: dict[str, str] | None = None,
) -> Iterator[Simulated]:
    """A running stand-in; it is ready when `ready`. A port of 0 leaves out the listening flags."""
    port = free_port() if port is None else port
    log = folder / f"server-{len(list(folder.glob('server-*')))}.log"
    listening = [f"--port={port}", "--host", "127.0.0.1"] if port else []
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("DD_SLURM", "VLLM", "CUDA"))}
    environ |= {"DD_SLURM_SIMULATE": json.dumps(told or {}), **(environment or {})}
    command = [sys.executable, "-m", "shell.simulate", "serve", "org/model", *words, *listening]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=environ, start_new_session=True)
    server = Simulated(process, port, log)
    try:
        if ready:
            server.wait_until_ready()
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody has, another one each time; below the ephemeral range."""
    for port in _ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind((address, port))
            return port
    raise AssertionError("no free port")
