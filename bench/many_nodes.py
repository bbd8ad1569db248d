"""A thousand nodes that are not there: stand-ins for ``srun`` and ``scontrol``, and servers that answer at once.

Every node has an address of the machine's loopback network, so that one process can answer for all servers. A step of
servers is one sleeping process; so what the controller costs can be told from what nodes cost.
"""

import json
import os
import resource
import selectors
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bench.instant_server import HEAD, answer, first_request
from core.layout import node_facts
from core.plan.bound import BoundPlan
from core.plan.facts import Address, Devices, FactsRequest, NodeFacts, PathFact
from core.plan.steps import probes_of, steps_of
from core.units import NodeName

GPUS = 8
METRICS = (Path(__file__).parents[1] / "tests" / "facts" / "vllm_metrics" / "0.32-load.txt").read_bytes()
"""What a real vLLM 0.32 says; the controller reads it from every server every few seconds."""
_SRUN = """#!/bin/sh
case "$*" in
  --version) echo "slurm 22.05.8" ;;
  *"shell.node facts"*) PYTHONPATH={project} exec {python} -m bench.many_nodes {count} "$@" ;;
  *) echo launched >>{launched}; exec sleep 100000 ;;
esac
"""
_SCONTROL = """#!/bin/sh
cat {hosts}
"""


def node_names(count: int) -> list[str]:
    """As Slurm would list them."""
    return [f"n{index:05d}" for index in range(count)]


def address_of(index: int) -> str:
    """Linux answers at every address of 127.0.0.0/8."""
    return f"127.{1 + (index >> 16)}.{index >> 8 & 255}.{index & 255}"


def make_tools(folder: Path, count: int, project: Path) -> Path:
    """A folder for PATH. Each launch of a step is a line in ``launched``."""
    (folder / "hosts").write_text("".join(f"{name}\n" for name in node_names(count)))
    tools = folder / "bin"
    tools.mkdir()
    values: Mapping[str, object] = {
        "project": project,
        "python": sys.executable,
        "count": count,
        "launched": folder / "launched",
        "hosts": folder / "hosts",
    }
    for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
        (tools / name).write_text(text.format(**values))
        (tools / name).chmod(0o755)
    return tools


def write_facts(count: int, request_path: str) -> None:
    """What all nodes would say: that everything which was asked for is there."""
    request = msgspec.json.decode(Path(request_path).read_bytes(), type=FactsRequest)
    paths = tuple(PathFact(path=wanted.path, kind=wanted.kind, state="fine") for wanted in request.paths)
    paths += tuple(PathFact(path=name, kind="executable", state="fine") for name in request.executables)
    os.makedirs(request.output_dir, exist_ok=True)
    for index, name in enumerate(node_names(count)):
        facts = NodeFacts(
            node=NodeName(name),
            hostname=name,
            addresses=(Address(interface="ib0", address=address_of(index)),),
            ephemeral_low=32_768,
            ephemeral_high=60_999,
            taken_ports=(22, 6818),
            devices=Devices(variable="CUDA_VISIBLE_DEVICES", mask=",".join(map(str, range(GPUS))), present=GPUS),
            cpus=64,
            memory_mib=512_000,
            shm_mib=100_000,
            nofile_soft=1024,
            nofile_hard=1_048_576,
            python_version="3.12.3",
            vllm_version="0.22.0",
            paths=paths,
        )
        Path(node_facts(request.output_dir, name)).write_bytes(msgspec.json.encode(facts))


class Servers:
    """Answers for every server of a plan, in a thread."""

    def __init__(self, plan: BoundPlan) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._names = {p.base_url: list(p.names) for step in steps_of(plan) for p in probes_of(plan, step)}
        self._watched = selectors.DefaultSelector()
        self._waiting: dict[socket.socket, bytes] = {}
        self._listening = {self._listen(url.removeprefix("http://")) for url in self._names}
        self._ending, self._end = socket.socketpair()
        self._watched.register(self._ending, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Free all ports."""
        self._end.close()
        self._thread.join()
        self._watched.close()
        for one in (*self._listening, *self._waiting, self._ending):
            one.close()

    def _listen(self, place: str) -> socket.socket:
        address, _, port = place.partition(":")
        listening = socket.create_server((address, int(port)))
        self._watched.register(listening, selectors.EVENT_READ)
        return listening

    def _serve(self) -> None:
        while True:
            for key, _ in self._watched.select():
                found = key.fileobj
                assert isinstance(found, socket.socket)
                if found is self._ending:
                    return
                if found in self._listening:
                    connection = found.accept()[0]
                    self._waiting[connection] = b""
                    self._watched.register(connection, selectors.EVENT_READ)
                elif not self._answer(found):
                    self._watched.unregister(found)
                    del self._waiting[found]
                    found.close()

    def _answer(self, connection: socket.socket) -> bool:
        address, port = connection.getsockname()
        try:
            content = connection.recv(1 << 16)
            data = self._waiting[connection] + content
            while (request := first_request(data)) is not None:
                path, data = request
                names = self._names[f"http://{address}:{port}"]
                body = METRICS if path == "/metrics" else json.dumps(answer(path, names)).encode()
                connection.sendall(HEAD.format(len(body)).encode() + body)
        except OSError:
            return False
        self._waiting[connection] = data
        return bool(content)


def main(words: Sequence[str]) -> None:
    """The facts of so many nodes, as `srun` with these words would gather them."""
    write_facts(int(words[0]), words[words.index("--request") + 1])


if __name__ == "__main__":
    main(sys.argv[1:])
