"""What the controller costs with very many nodes: ``python -m bench.scale``.

The controller is the real one, of a run whose job is a thousand nodes that are not there (`bench.many_nodes`): each
``srun`` is a process that sleeps, each server answers at once. CPU and memory are those of the controller's two
processes, without what they start. With ``--slurmds N``, which needs root, the same run is also started on a test
cluster of N nodes, with a server on each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.failure import cpu_ns, server
from bench.many_nodes import GPUS, Servers, make_tools, node_names
from bench.marks import await_marks
from bench.node_meter import watch_batch
from core.layout import AttemptPaths
from core.plan.bound import BoundPlan
from core.slurm.hostnames import compress_hostlist
from core.units import NodeName
from shell.authored.authoring import read_and_plan
from shell.submission.runs import create_run
from shell.worker.descendants import descendants
from tests.slurm.options import LabNode, LabOptions
from tests.slurm.running import running_cluster
from tests.slurm.slurm_run import SlurmRun

PROJECT = Path(__file__).resolve().parents[1]
PATIENCE_S = 300.0
SERVING_S = 20.0
SETTLED_S = 1.0
_PROGRAM = """#!/bin/sh
touch {folder}/working
exec sleep 200000
"""


class Figures(NamedTuple):
    """Of the controller. Seconds count from its start; `sruns` are steps that run at once."""

    nodes: int
    sruns: int
    launched_s: float
    launched_cpu_s: float
    ready_s: float
    ready_cpu_s: float
    serving_ms_per_s: float
    memory_mib: float
    threads: int
    processes: int
    end_s: float


class Controller:
    """The controller of a run whose job has so many nodes."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder = folder
        tools = make_tools(folder, nodes, PROJECT)
        self.attempt = AttemptPaths(root=f"{_make_run(folder, nodes)}/shards/00000/attempts/0001")
        names = compress_hostlist(tuple(map(NodeName, node_names(nodes))))
        slurm = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": names, "SLURM_JOB_NUM_NODES": str(nodes)}
        environ = {**os.environ, **slurm, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(PROJECT)}
        root = self.attempt.root.partition("/shards/")[0]
        self.begun = time.monotonic()
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                (sys.executable, "-m", "shell.run", "--run-dir", root, "--shard", "0"),
                env=environ,
                stdout=log,
                stderr=log,
            )

    def until(self, true: Callable[[], object], what: str) -> float:
        """Seconds since the start, as soon as it is true."""
        while not true():
            if time.monotonic() - self.begun > PATIENCE_S or self.process.poll() is not None:
                raise TimeoutError(f"waited in vain for {what}\n{(self.folder / 'log').read_text()}")
            time.sleep(0.02)
        return time.monotonic() - self.begun

    @property
    def own(self) -> tuple[int, int]:
        """The guard and the controller itself, its first child."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return self.process.pid, int(children[0])

    def cpu_s(self) -> float:
        """CPU so far."""
        return sum(map(cpu_ns, self.own)) / 1e9

    def status(self, field: str) -> int:
        """A number of ``/proc/PID/status``, of both processes together."""
        lines = (line for pid in self.own for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))

    def launched(self) -> int:
        """How many steps of servers have been started."""
        path = self.folder / "launched"
        return path.read_text().count("\n") if path.exists() else 0

    def plan(self) -> BoundPlan:
        """The bound plan."""
        return msgspec.json.decode(Path(self.attempt.bound(1)).read_bytes(), type=BoundPlan)


def _make_run(folder: Path, nodes: int) -> str:
    """A run with a replica per node and a program that does nothing."""
    program = folder / "program"
    program.write_text(_PROGRAM.format(folder=folder))
    program.chmod(0o755)
    (folder / "model").mkdir()
    one = {
        "model_alias": "m",
        "model": str(folder / "model"),
        "server": {"lead_boot_standoff": 0, "rank_launch_stagger": 0, "vllm_version": "0.22.0"},
        "resources": {"nodes": nodes},
        "topology": {"tensor_parallel": GPUS},
    }
    run = {
        "schema_version": 1,
        "name": "bench",
        "client": {"command": [str(program)], "cpus": 4},
        "invocation": {"num_records": 1},
        "deployments": [one],
    }
    profile = {"schema_version": 1, "workspace_root": str(folder), "gpus_per_node": GPUS, "container": "none"}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "profiles.json").write_text(json.dumps({"schema_version": 1, "clusters": {"here": profile}}))
    planned = read_and_plan(str(folder / "run.json"), str(folder / "profiles.json"), "here", None)
    _, paths = create_run(planned.unwrap(), None).unwrap()
    return paths.root


@contextmanager
def controlled(nodes: int) -> Iterator[Controller]:
    """A controller, and nothing of it afterwards."""
    with tempfile.TemporaryDirectory() as name:
        controller = Controller(Path(name), nodes)
        try:
            yield controller
        finally:
            controller.process.terminate()
            controller.process.wait()


def measure(nodes: int, serving_s: float) -> Figures:
    """From the start of a controller to its end, with all servers ready in between."""
    with controlled(nodes) as controller:
        controller.until(Path(controller.attempt.bound(1)).exists, "the bound plan")
        plan = controller.plan()
        with closing(Servers(plan)):
            steps = -(-nodes // plan.deployments[0].replicas_per_step)
            launched_s = controller.until(lambda: controller.launched() == steps, f"{steps} steps")
            launched_cpu_s = controller.cpu_s()
            ready_s = controller.until((controller.folder / "working").exists, "the client's work")
            ready_cpu_s = controller.cpu_s()
            time.sleep(SETTLED_S)
            before = controller.cpu_s()
            time.sleep(serving_s)
            return Figures(
                nodes=nodes,
                sruns=len([pid for pid in descendants(controller.own[1]) if is_step(pid)]),
                launched_s=launched_s,
                launched_cpu_s=launched_cpu_s,
                ready_s=ready_s,
                ready_cpu_s=ready_cpu_s,
                serving_ms_per_s=(controller.cpu_s() - before) * 1000 / serving_s,
                memory_mib=controller.status("VmRSS") / 1024,
                threads=controller.status("Threads"),
                processes=1 + len(descendants(controller.process.pid)),
                end_s=_end(controller),
            )


def is_step(pid: int) -> bool:
    """Whether this is a stand-in for an ``srun`` that serves."""
    return Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00100000\x00"


def _end(controller: Controller) -> float:
    """Tell it to stop; how long its end takes."""
    begun = time.monotonic()
    controller.process.terminate()
    controller.process.wait()
    return time.monotonic() - begun


class Real(NamedTuple):
    """On a test cluster, from the first line of the batch script."""

    nodes: int
    launched_s: float
    working_s: float


def measure_real(nodes: int) -> Real:
    """A server on each of so many nodes, each with a slurmd of its own."""
    with running_cluster(LabOptions(nodes=tuple(LabNode(name=f"c{index + 1}") for index in range(nodes)))) as cluster:
        run = SlurmRun(cluster, {"resources": {"nodes": nodes}, "topology": {"tensor_parallel": GPUS}})
        words = " ".join((*server(run.gate), '"$@"'))
        run.vllm.write_text(f"#!/bin/sh\nexec {words}\n")
        job = run.submit()
        begun_ns = watch_batch(cluster, "c1").begun_ns
        launched = await_marks(run.gate / "marks", "launched", nodes)
        run.wait_working(job)
        working_ns = (run.gate / "working").stat().st_mtime_ns
        run.open_gate()
        if (state := job.ended()) != "COMPLETED":
            raise ValueError(f"the job is {state}: {job.log()}")
        return Real(nodes, (launched[-1].at_ns - begun_ns) / 1e9, (working_ns - begun_ns) / 1e9)


def table(rows: Sequence[Figures]) -> str:
    """One column per number of nodes."""
    words = {
        "sruns": "`srun`s at once",
        "launched_s": "until all are launched, s",
        "launched_cpu_s": "CPU until then, s",
        "ready_s": "until all servers are ready and the client works, s",
        "ready_cpu_s": "CPU until then, s",
        "serving_ms_per_s": "while serving, ms of CPU per s",
        "memory_mib": "memory, MiB",
        "threads": "threads",
        "processes": "processes, with all `srun`s, endpoint and client",
        "end_s": "from TERM to the end, s",
    }
    lines = [f"| nodes | {' | '.join(f'{row.nodes:,}' for row in rows)} |", "|---|" + "--:|" * len(rows)]
    for name, text in words.items():
        figures = (getattr(row, name) for row in rows)
        lines.append(f"| {text} | {' | '.join(_figure(value) for value in figures)} |")
    return "\n".join(lines)


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--serving", type=float, default=SERVING_S, metavar="SECONDS")
    parser.add_argument("--slurmds", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    print(table([measure(nodes, options.serving) for nodes in options.nodes]))
    if options.slurmds:
        real = measure_real(options.slurmds)
        text = f"servers run on all after {real.launched_s:.1f} s, the client works after {real.working_s:.1f} s"
        print(f"\n{real.nodes} slurmds: {text}")


if __name__ == "__main__":
    main()
