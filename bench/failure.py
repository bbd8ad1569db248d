"""How soon the death of a rank ends its siblings, and what a node worker costs meanwhile: ``python -m bench.failure``.

On one node: our node worker and the peer's, in turns, each with two ranks of which one is killed; from the kill to TERM
at the other. Idle: CPU of the worker while nothing happens. On other nodes, which needs root: a rank on each of two
nodes of a test cluster; ours with its controller, the peer's node workers under the ``srun`` that its runtime uses,
which is what ends the other node there.
"""

import argparse
import base64
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.marks import await_marks
from bench.peer import add_peer_option, find_peer
from shell.worker.descendants import descendants
from tests.shell.node_world import plan_of
from tests.slurm.available import why_not
from tests.slurm.cluster import Cluster
from tests.slurm.options import LabNode, LabOptions
from tests.slurm.running import running_cluster
from tests.slurm.slurm_run import TWO_NODES, SlurmRun

SERVER = Path(__file__).with_name("instant_server.py")
PEER_WORKER = ("-m", "data_designer.slurm.runtime.node_worker", "serve", "--spec")
SETTLED_S = 0.2
IDLE_S = 30.0
DEATHS_OF_A_JOB = 4
"""The wait before a restart doubles each time."""

Start = Callable[[Path], subprocess.Popen[bytes]]
"""Starts a worker with two ranks; the folder is its own."""


def server(folder: Path) -> tuple[str, ...]:
    """A rank that writes down when it is told to end."""
    return (sys.executable, "-I", "-S", str(SERVER), "--marks", str(folder / "marks"))


def start_ours(folder: Path) -> subprocess.Popen[bytes]:
    """Our node worker, as a job step starts it."""
    plan = plan_of(["c1"], [0, 0], executable=server(folder))
    (folder / "bound.json").write_bytes(msgspec.json.encode(plan))
    (folder / "lease").touch()
    step = ("--step", "writer-0", "--launch", "1", "--tasks-dir", str(folder / "tasks"))
    places = ("--log-dir", str(folder / "logs"), "--lease", str(folder / "lease"))
    words = ("serve", "--plan", str(folder / "bound.json"), *step, *places)
    return _start((sys.executable, "-m", "shell.node", *words), {"SLURMD_NODENAME": "c1"})


def peer_starter(python: str) -> Start:
    """The peer's node worker."""

    def start(folder: Path) -> subprocess.Popen[bytes]:
        spec = peer_spec({"c1": [_serve(server(folder), port) for port in (21_001, 21_002)]})
        slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "CUDA_VISIBLE_DEVICES": "0,1"}
        return _start((python, *PEER_WORKER, spec), slurm)

    return start


def _start(argv: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _serve(command: Sequence[str], port: int) -> tuple[str, ...]:
    return (*command, "serve", "m", "--host", "127.0.0.1", "--port", str(port))


def peer_spec(nodes: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """What the peer's workers are told: commands of each node, every one with a GPU."""
    told = {
        "schema_version": 1,
        "resolved_gpus_per_node": max(map(len, nodes.values())),
        "required_model_path": None,
        "nodes": [
            {
                "node_index": index,
                "host": host,
                "ports": [],
                "processes": [
                    {
                        "process_id": f"rank-{index}-{gpu}",
                        "command": list(command),
                        "gpu_indices": [gpu],
                        "launch_delay_seconds": 0,
                    }
                    for gpu, command in enumerate(commands)
                ],
            }
            for index, (host, commands) in enumerate(nodes.items())
        ],
    }
    return base64.urlsafe_b64encode(json.dumps(told).encode()).decode()


def same_node_ms(start: Start) -> float:
    """From the death of one rank to TERM at the other, once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worker = start(folder)
        try:
            first, _ = await_marks(folder / "marks", "launched", 2)
            time.sleep(SETTLED_S + random.uniform(0, 0.2))  # a worker that polls is met at any moment
            killed_ns = time.time_ns()
            os.kill(first.pid, signal.SIGKILL)
            (told,) = await_marks(folder / "marks", "term", 1)
        finally:
            worker.terminate()
            worker.wait()
    return (told.at_ns - killed_ns) / 1e6


def idle_ms_per_s(start: Start, seconds: float) -> float:
    """CPU of a worker with its helpers, without its ranks, while nothing happens."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        worker = start(folder)
        try:
            ranks = {mark.pid for mark in await_marks(folder / "marks", "launched", 2)}
            time.sleep(SETTLED_S)
            own = [pid for pid in (worker.pid, *descendants(worker.pid)) if pid not in ranks]
            before = sum(map(cpu_ns, own))
            time.sleep(seconds)
            used = sum(map(cpu_ns, own)) - before
        finally:
            worker.terminate()
            worker.wait()
    return used / 1e6 / seconds


def cpu_ns(pid: int) -> int:
    """What the scheduler says that all threads of a process have used."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


class Deaths(NamedTuple):
    """Milliseconds from death to TERM, of many."""

    median: float
    worst: float
    deaths: int


def summary(figures: Sequence[float]) -> Deaths:
    """Of these deaths."""
    return Deaths(statistics.median(figures), max(figures), len(figures))


# --- on other nodes ---------------------------------------------------------------------------------------------------


def other_node_ours(cluster: Cluster, deaths: int) -> list[float]:
    """A replica over two nodes that is restarted after each death of its second rank, in as many jobs as it takes."""
    found: list[float] = []
    while len(found) < deaths:
        found += _deaths_of_a_job(cluster, min(DEATHS_OF_A_JOB, deaths - len(found)))
    return found


def _deaths_of_a_job(cluster: Cluster, deaths: int) -> list[float]:
    policy = {"on_failure": {"policy": "restart", "max_restarts": deaths, "backoff": "1s"}}
    run = SlurmRun(cluster, TWO_NODES | policy)
    marks = run.gate / "marks"
    words = " ".join((*server(run.gate), '"$@"'))
    run.vllm.write_text(f"#!/bin/sh\nexec {words}\n")
    job = run.submit()
    run.wait_working(job)
    found = [_kill_and_wait(cluster, marks, death) for death in range(1, deaths + 1)]
    cluster.scancel(job.id)
    cluster.wait_idle()
    return found


def other_node_peer(cluster: Cluster, python: str, deaths: int) -> list[float]:
    """The peer's step over two nodes, started anew for each death, in an allocation that stands."""
    folder = cluster.folder_for("peer")
    spec = peer_spec({"c1": [_serve(server(folder), 21_001)], "c2": [_serve(server(folder), 21_001)]})
    job = cluster.submit("sleep 3600", "--nodes=2", "--cpus-per-task=8", "--gres=gpu:1")
    cluster.wait_running(job)
    shape = ("--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=c1,c2", "--exact", "--overlap")
    ways = ("--unbuffered", "--export=ALL", "--cpus-per-task=8", "--kill-on-bad-exit=1")
    gpus = ("--gpus-per-task=1", "--gpu-bind=mask_gpu:0x1")
    argv = ("srun", f"--jobid={job}", *shape, *ways, *gpus, "--", python, *PEER_WORKER, spec)
    found: list[float] = []
    for death in range(1, deaths + 1):
        step = cluster.start(argv)
        found.append(_kill_and_wait(cluster, folder / "marks", death))
        step.communicate()
    cluster.scancel(job)
    cluster.wait_idle()
    return found


def _kill_and_wait(cluster: Cluster, marks: Path, death: int) -> float:
    """Kill the rank on c2 of this launch; milliseconds to TERM at the rank on c1."""
    await_marks(marks, "launched", 2 * death)
    time.sleep(1 + random.uniform(0, 0.2))  # until all has settled
    (victim,) = [one.pid for one in cluster.job_processes("c2") if _is_rank(one.command)]
    killed_ns = time.time_ns()
    os.kill(victim, signal.SIGKILL)
    return (await_marks(marks, "term", death)[-1].at_ns - killed_ns) / 1e6


def _is_rank(command: str) -> bool:
    return f"{SERVER} --marks" in command and command.startswith(sys.executable)


# --- the table --------------------------------------------------------------------------------------------------------


def table(rows: Mapping[str, Sequence[float] | float]) -> str:
    """One line per figure."""
    lines = ["| | median | worst | deaths |", "|---|--:|--:|--:|"]
    for name, found in rows.items():
        if isinstance(found, float):
            lines.append(f"| {name} | {found:.2f} | | |")
        else:
            deaths = summary(found)
            lines.append(f"| {name} | {deaths.median:.1f} | {deaths.worst:.1f} | {deaths.deaths} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.failure", description=__doc__)
    parser.add_argument("--deaths", type=int, default=30)
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS")
    add_peer_option(parser)
    options = parser.parse_args(arguments)
    peer = find_peer(options.peer)
    starters = {"ours": start_ours} | ({"peer": peer_starter(peer)} if peer else {})
    deaths: dict[str, list[float]] = {who: [] for who in starters}
    for _ in range(options.deaths):
        for who, start in starters.items():
            deaths[who].append(same_node_ms(start))
    rows: dict[str, Sequence[float] | float] = {}
    rows |= {f"same node, ms: {who}": found for who, found in deaths.items()}
    rows |= {f"idle, ms of CPU per s: {who}": idle_ms_per_s(start, options.idle) for who, start in starters.items()}
    with ExitStack() as clusters:
        reason = why_not()
        if reason is None:
            cluster = clusters.enter_context(
                running_cluster(LabOptions(nodes=(LabNode(name="c1"), LabNode(name="c2"))))
            )
            rows["other node, ms: ours"] = other_node_ours(cluster, options.deaths)
            if peer:
                rows["other node, ms: peer"] = other_node_peer(cluster, peer, options.deaths)
        else:
            print(f"other nodes are left out: {reason}", file=sys.stderr)
    print(table(rows))


if __name__ == "__main__":
    main()
