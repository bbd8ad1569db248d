"""What stands before the same servers in `bench.endpoint`: ours, its rivals, and the bare relay that is the floor."""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peer import add_peer_option, find_peer

TOKEN = "client-token"
ROOT = Path(__file__).resolve().parent.parent
_NGINX = """daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
worker_rlimit_nofile 20000; events {{ worker_connections 9000; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 100000000; client_max_body_size 0;
upstream all {{ least_conn; {servers} keepalive 512; keepalive_requests 100000000; }}
server {{ listen 127.0.0.1:{port}; location = /health {{ return 200; }}
location / {{ proxy_pass http://all; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_buffering off; proxy_request_buffering off; }} }} }}
"""
_HAPROXY = """global
  nbthread 1
  maxconn 9000
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend all
  bind 127.0.0.1:{port}
  monitor-uri /health
  default_backend servers
backend servers
  balance leastconn
{servers}
"""


class Contender(NamedTuple):
    """How one is started: its command is made from a folder, its port and the servers' ports."""

    name: str
    program: str

    def argv(self, folder: Path, port: int, servers: Sequence[int]) -> tuple[str, ...]:
        """The command; files that it needs are written."""
        urls = [f"http://127.0.0.1:{server}" for server in servers]
        match self.name:
            case "ours":
                return (self.program, "-m", "shell.endpoint", "--config", _our_spec(folder, port, None))
            case "ours, with access log":
                log = str(folder / "access.jsonl")
                return (self.program, "-m", "shell.endpoint", "--config", _our_spec(folder, port, log))
            case "bare relay":
                return (self.program, str(ROOT / "bench/bare_relay.py"), str(port), *map(str, servers))
            case "peer":
                module = "data_designer.slurm.runtime.proxy"
                options = [word for url in urls for word in ("--backend", url)]
                return (self.program, "-m", module, "--listen-port", str(port), *options)
            case "vllm-router":
                options = ["--host", "127.0.0.1", "--port", str(port), "--policy", "power_of_two"]
                return (self.program, *options, "--log-level", "error", "--worker-urls", *urls)
            case "nginx":
                lines = " ".join(f"server 127.0.0.1:{server};" for server in servers)
                config = _write(folder / "nginx.conf", _NGINX.format(folder=folder, port=port, servers=lines))
                return (self.program, "-p", str(folder), "-e", "stderr", "-c", config)
            case _:
                lines = "\n".join(f"  server s{server} 127.0.0.1:{server}" for server in servers)
                return (self.program, "-q", "-f", _write(folder / "haproxy", _HAPROXY.format(port=port, servers=lines)))


def _write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _our_spec(folder: Path, port: int, access_log: str | None) -> str:
    """Everything that a run has: tokens both ways and a limit of waiting requests."""
    tokens = {"client": folder / "client.token", "server": folder / "server.token"}
    for name, path in tokens.items():
        path.write_text(f"{name}-token\n")
        path.chmod(0o600)
    spec = {"alias": "bench", "served_name": "m", "address": "127.0.0.1", "port": port, "max_waiting": 10_000}
    files = {f"{name}_token_file": str(path) for name, path in tokens.items()}
    return _write(folder / "endpoint.json", json.dumps({**spec, **files, "access_log": access_log}))


def add_contender_options(parser: argparse.ArgumentParser) -> None:
    """Where the rivals are; those that are not found are left out."""
    add_peer_option(parser)
    for name in ("nginx", "haproxy", "vllm-router"):
        parser.add_argument(f"--{name}", default=shutil.which(name), metavar="PROGRAM")


def contenders(options: argparse.Namespace) -> tuple[Contender, ...]:
    """Those that there are."""
    peer = find_peer(options.peer)
    programs = {
        "bare relay": sys.executable,
        "ours": sys.executable,
        "ours, with access log": sys.executable,
        "peer": peer,
        "vllm-router": options.vllm_router,
        "nginx": options.nginx,
        "haproxy": options.haproxy,
    }
    return tuple(Contender(name, program) for name, program in programs.items() if program)


class Running(NamedTuple):
    """A process that serves, and what it uses."""

    process: subprocess.Popen[bytes]
    port: int

    def _pids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def cpu_s(self) -> float:
        """CPU seconds so far, to the nanosecond where the kernel counts so."""
        return sum(
            int(task.read_text().split()[0]) / 1e9
            for pid in self._pids()
            for task in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )

    def memory_kib(self) -> int:
        """Resident now."""
        return sum(
            int(line.split()[1])
            for pid in self._pids()
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS:")
        )

    def peak_kib(self) -> int:
        """The most since `forget_peak`."""
        return sum(
            int(line.split()[1])
            for pid in self._pids()
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmHWM:")
        )

    def forget_peak(self) -> None:
        """Count the peak anew."""
        for pid in self._pids():
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


@contextmanager
def started(contender: Contender, folder: Path, servers: Sequence[int], core: int) -> Iterator[Running]:
    """The contender, serving on one core."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    with (folder / "stderr").open("w") as complaints:
        process = subprocess.Popen(
            ("taskset", "-c", str(core), *contender.argv(folder, port, servers)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": ""},
        )
    try:
        if contender.name.startswith("ours"):
            _give_servers(process, servers)
        _wait_until_it_serves(process, port)
        yield Running(process, port)
    finally:
        process.terminate()
        if process.stdin is not None:
            process.stdin.close()
        process.wait(20)


def _give_servers(process: subprocess.Popen[bytes], servers: Sequence[int]) -> None:
    addresses = [{"id": f"s-{port}", "url_host": "127.0.0.1", "port": port} for port in servers]
    assert process.stdin is not None
    process.stdin.write(json.dumps({"kind": "backends", "backends": addresses}).encode() + b"\n")
    process.stdin.flush()


def _wait_until_it_serves(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as probe:
                probe.sendall(
                    b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %b\r\n"
                    b"Content-Length: 2\r\n\r\n{}" % TOKEN.encode()
                )
                if probe.recv(100)[9:12] in (b"200", b"404"):
                    return
        except OSError:
            time.sleep(0.05)
        time.sleep(0.05)
    raise TimeoutError("it does not serve")
