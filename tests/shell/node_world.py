"""Helpers of the node tests: hand-made plans, node workers as real processes, and waiting without fixed times."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from core.plan.bound import Attempt, BoundDeployment, BoundNode, BoundPlan, EnvItem, Lane, Parallel, Replica, Serving
from core.plan.task import TaskEnded, TaskStarted
from core.units import Alias, NodeName, Port

REPOSITORY = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in_lane.py")
PATIENCE_S = 20.0
"""How long a test waits for what must happen; far above what it takes."""


def worker_number() -> int:
    """Which of the processes that run tests side by side this is, so that each has ports of its own."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def free_port(address: str = "127.0.0.1") -> Port:
    """A port that nobody has; below the ephemeral range, so that no connection takes it meanwhile."""
    for port in range(20_000 + 4_000 * worker_number() + os.getpid() % 3_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return Port(port)
    raise AssertionError("no free port")


def plan_of(
    nodes: Sequence[str],
    slots: Sequence[int],
    *does: str,
    ports: Sequence[int] | None = None,
    grace_ms: int = 5_000,
    executable: tuple[str, ...] = (sys.executable, "-S", str(STAND_IN)),
    environment: tuple[EnvItem, ...] = (),
    delays_ms: Sequence[int] | None = None,
) -> BoundPlan:
    """One replica with a process on each of `slots`: ``writer-0.r0``, ``writer-0.r1``, … on GPU 0, 1, …

    Each of `does` is a ``<rank>:<what>:<value>`` for the stand-in.
    """
    first = free_port()
    given = ports or [first + rank for rank in range(len(slots))]
    replica = Replica(
        index=0,
        identity="run.0.1.writer-0.1",
        lanes=tuple(
            Lane(
                slot=slot,
                rank=rank,
                gpu_indices=(rank,),
                role=Serving(http_port=Port(given[rank])),
                internal_port=None,
                launch_delay_ms=delays_ms[rank] if delays_ms else 0,
            )
            for rank, slot in enumerate(slots)
        ),
    )
    deployment = BoundDeployment(
        alias=Alias("writer"),
        served_name="writer-model",
        executable=executable,
        model="some/model",
        parallel=Parallel(tensor=1, pipeline=1, data=1, expert=False, nodes=1, load_balancing="none"),
        arguments=tuple(f"--do={what}" for what in does),
        environment=environment,
        readiness_path="/health",
        startup_timeout_ms=10_000,
        replicas_per_step=1,
        replicas=(replica,),
    )
    return BoundPlan(
        schema_version=1,
        attempt=Attempt(run_id="run", shard=0, number=1, job_id="77"),
        nodes=tuple(
            BoundNode(
                name=NodeName(name),
                address=f"127.0.1.{slot + 1}",
                interface=None,
                gpu_variable="CUDA_VISIBLE_DEVICES",
                gpus=tuple(str(gpu) for gpu in range(8)),
            )
            for slot, name in enumerate(nodes)
        ),
        client_slot=0,
        grace_ms=grace_ms,
        bundle=str(REPOSITORY),
        deployments=(deployment,),
        endpoints=(),
    )


class Worker:
    """A node worker that runs as it would under `srun`: the guard is its process, the worker the guard's child."""

    def __init__(
        self, plan: BoundPlan, folder: Path, node: str, launch: int = 1, lease: Path | None = None, **environ: str
    ) -> None:
        self.folder, self.node, self.launch = folder, node, launch
        plan_path = folder / "bound.json"
        plan_path.write_bytes(msgspec.json.encode(plan))
        options = ("--plan", plan_path, "--step", "writer-0", "--launch", str(launch))
        places = ("--tasks-dir", folder / "tasks", "--log-dir", folder / "logs")
        lease_words = () if lease is None else ("--lease", lease, "--lease-expires", "1")
        base = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        self.errors = folder / f"worker.{node}.{launch}.log"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "shell.node", "serve", *options, *places, *lease_words],
                env={**base, "PYTHONPATH": str(REPOSITORY), "SLURMD_NODENAME": node, **environ},
                stderr=errors,
                start_new_session=True,
            )

    def started(self) -> TaskStarted:
        """The record of its start, once every process has said that it is ready."""
        path = self.folder / "tasks" / f"writer-0.{self.launch}.{self.node}.started.json"
        until(lambda: path.exists() or self.process.poll() is not None)
        record = msgspec.json.decode(path.read_bytes(), type=TaskStarted)
        until(lambda: all("ready\n" in Path(lane.log).read_text() for lane in record.lanes))
        return record

    def ended(self) -> TaskEnded:
        """The record of its end."""
        path = self.folder / "tasks" / f"writer-0.{self.launch}.{self.node}.json"
        return msgspec.json.decode(path.read_bytes(), type=TaskEnded)

    def code(self) -> int:
        """Its exit code, when it has ended."""
        return self.process.wait(PATIENCE_S)

    def said(self) -> str:
        """What it wrote for people."""
        return self.errors.read_text()


@contextmanager
def worker(
    plan: BoundPlan, folder: Path, node: str, launch: int = 1, lease: Path | None = None, **environ: str
) -> Iterator[Worker]:
    """A node worker that is told to stop in the end, unless the test has ended it."""
    running = Worker(plan, folder, node, launch, lease, **environ)
    try:
        yield running
    finally:
        running.process.terminate()
        running.process.wait(PATIENCE_S)


def family(pid: int) -> list[int]:
    """A process and all below it."""
    from shell.worker.descendants import descendants

    return [pid, *descendants(pid)]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; fail when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
