"""Steps without Slurm: own environment per simulated node, exits told as `srun` would, nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest

from core.plan.bound import BoundPlan
from core.plan.facts import FactsRequest, NodeFacts, PathWanted
from core.plan.steps import steps_of
from core.plan.task import TaskEnded, TaskStarted
from core.supervise.effects import Signal
from core.units import NodeName, StepName
from shell.launch.launcher import Launcher
from shell.launch.local import LocalJob, LocalLauncher, local_nodes
from shell.launch.processes import Reaper
from tests.shell.node_world import PATIENCE_S, REPOSITORY, alive, family, plan_of, until

pytestmark = pytest.mark.usefixtures("nothing_left")

STEP = StepName("writer-0")


class Heard:
    """Everything that a launcher told."""

    def __init__(self) -> None:
        self.news: SimpleQueue[tuple[object, ...]] = SimpleQueue()

    def on_facts_exit(self, code: int) -> None:
        self.news.put(("facts", code))

    def on_task_exit(self, step: StepName, launch: int, node: NodeName, code: int) -> None:
        self.news.put(("task", step, launch, node, code))

    def on_step_exit(self, step: StepName, launch: int, code: int) -> None:
        self.news.put(("step", step, launch, code))

    def next(self) -> tuple[object, ...]:
        return self.news.get(timeout=PATIENCE_S)


class World:
    """Two simulated nodes."""

    def __init__(self, folder: Path, names: Sequence[str], kill_wait_s: float = 30.0) -> None:
        self.folder = folder
        self.heard = Heard()
        self.reaper = Reaper()
        nodes = local_nodes([NodeName(name) for name in names], [4] * len(names), str(folder / "nodes"))
        self.job = LocalJob("4711", nodes, str(folder / "tasks"), str(folder / "logs"), str(REPOSITORY))
        environ = {**os.environ, "SLURM_STEP_ID": "9", "SLURM_CPU_BIND": "cores"}
        self.launcher: Launcher = LocalLauncher(self.job, self.reaper, self.heard, environ, kill_wait_s)

    def serve(self, plan: BoundPlan, launch: int = 1) -> None:
        path = self.folder / "bound.json"
        path.write_bytes(msgspec.json.encode(plan))
        self.launcher.serve(steps_of(plan)[0], launch, plan, str(path))

    def started(self, node: str, launch: int = 1) -> TaskStarted:
        path = self.folder / "tasks" / f"writer-0.{launch}.{node}.started.json"
        until(path.exists)
        record = msgspec.json.decode(path.read_bytes(), type=TaskStarted)
        until(lambda: all("ready\n" in Path(lane.log).read_text() for lane in record.lanes))
        return record

    def ended(self, node: str) -> TaskEnded:
        path = self.folder / "tasks" / f"writer-0.1.{node}.json"
        return msgspec.json.decode(path.read_bytes(), type=TaskEnded)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, ["sim01", "sim02"], kill_wait_s=0.2)
    yield made
    made.launcher.signal(STEP, 1, "KILL")
    until(lambda: not [pid for pid in family(os.getpid())[1:] if "shell.node" in command(pid)])
    made.reaper.close()


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_every_node_reports_its_own_facts(world: World) -> None:
    output = world.folder / "facts"
    paths = (PathWanted(path="/no/such/model", kind="directory"),)
    request = FactsRequest(paths=paths, executables=(), ask_vllm_version=False, output_dir=str(output))
    (world.folder / "request.json").write_bytes(msgspec.json.encode(request))
    world.launcher.facts(str(world.folder / "request.json"), [NodeName("sim01"), NodeName("sim02")], None)
    assert world.heard.next() == ("facts", 0)
    facts = [msgspec.json.decode(path.read_bytes(), type=NodeFacts) for path in sorted(output.iterdir())]
    assert [(fact.node, fact.addresses[0].address) for fact in facts] == [
        ("sim01", "127.0.1.1"),
        ("sim02", "127.0.1.2"),
    ]
    assert [fact.devices.mask for fact in facts] == ["0,1,2,3"] * 2
    assert [fact.paths[0].state for fact in facts] == ["missing"] * 2


def test_facts_of_one_node_that_fail_do_not_stop_the_others(world: World) -> None:
    world.launcher.facts("/no/such/request", [NodeName("sim01"), NodeName("sim02")], None)
    assert world.heard.next() == ("facts", os.EX_UNAVAILABLE)
    for node in ("sim01", "sim02"):
        assert "/no/such/request" in (world.folder / "logs" / f"facts.{node}.log").read_text()


def test_a_step_is_stopped_in_order(world: World) -> None:
    world.serve(plan_of(["sim01", "sim02"], [0, 1]))
    logs = [Path(world.started(node).lanes[0].log).read_text() for node in ("sim01", "sim02")]
    assert "SLURMD_NODENAME sim01\n" in logs[0]
    assert "VLLM_HOST_IP 127.0.1.2\n" in logs[1]
    world.launcher.signal(STEP, 1, "TERM")
    assert {world.heard.next(), world.heard.next()} == {("task", STEP, 1, node, 0) for node in ("sim01", "sim02")}
    assert world.heard.next() == ("step", STEP, 1, 0)


def test_a_bad_task_ends_the_others(world: World) -> None:
    go = world.folder / "go"
    world.serve(plan_of(["sim01", "sim02"], [0, 1], f"0:exit-when:{go}=0"))
    for node in ("sim01", "sim02"):
        world.started(node)
    go.touch()
    assert world.heard.next() == ("task", STEP, 1, "sim01", 1)
    assert world.heard.next() == ("task", STEP, 1, "sim02", 0)
    assert world.heard.next() == ("step", STEP, 1, 1)


def test_a_task_that_does_not_end_on_term_is_killed(world: World) -> None:
    world.serve(plan_of(["sim01", "sim02"], [0, 1], "1:ignore-term:"))
    first, second = (world.started(node) for node in ("sim01", "sim02"))
    os.kill(first.lanes[0].pid, signal.SIGKILL)
    assert world.heard.next() == ("task", STEP, 1, "sim01", 1)
    assert world.heard.next() == ("task", STEP, 1, "sim02", 128 + signal.SIGKILL)
    assert world.heard.next() == ("step", STEP, 1, 128 + signal.SIGKILL)
    assert not alive(second.lanes[0].pid)


def test_kill_leaves_nothing_at_once(world: World) -> None:
    pid_file = world.folder / "hidden.pid"
    world.serve(plan_of(["sim01", "sim02"], [0, 1], f"0:hide:{pid_file}", "1:ignore-term:"))
    pids = [world.started(node).lanes[0].pid for node in ("sim01", "sim02")]
    pids.append(int(pid_file.read_text()))
    world.launcher.signal(STEP, 1, "KILL")
    assert [world.heard.next()[0] for _ in range(3)] == ["task", "task", "step"]
    assert not any(map(alive, pids))


@pytest.mark.parametrize("order", ["TERM", "KILL"])
def test_workers_that_somebody_stopped_end_all_the_same(world: World, order: Signal) -> None:
    world.serve(plan_of(["sim01", "sim02"], [0, 1]))
    records = [world.started(node) for node in ("sim01", "sim02")]
    guard = int(Path(f"/proc/{records[0].worker_pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGSTOP)
    os.kill(records[1].worker_pid, signal.SIGSTOP)
    world.launcher.signal(STEP, 1, order)
    assert [world.heard.next()[0] for _ in range(3)] == ["task", "task", "step"]
    assert not any(alive(record.lanes[0].pid) for record in records)


def test_a_killed_guard_is_told_and_its_worker_ends(world: World) -> None:
    world.serve(plan_of(["sim01", "sim02"], [0, 1]))
    records = [world.started(node) for node in ("sim01", "sim02")]
    guard = int(Path(f"/proc/{records[0].worker_pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    assert world.heard.next() == ("task", STEP, 1, "sim01", -9)
    assert world.heard.next() == ("task", STEP, 1, "sim02", 0)
    assert world.heard.next() == ("step", STEP, 1, 137)
    until(lambda: not any(alive(record.lanes[0].pid) for record in records))


def test_launches_of_a_step_are_kept_apart(world: World) -> None:
    plan = plan_of(["sim01"], [0])
    world.serve(plan, launch=1)
    world.started("sim01", 1)
    world.launcher.signal(STEP, 2, "TERM")
    world.launcher.signal(STEP, 1, "TERM")
    assert world.heard.next() == ("task", STEP, 1, "sim01", 0)
    assert world.heard.next() == ("step", STEP, 1, 0)
    world.launcher.signal(STEP, 1, "TERM")
    world.serve(plan, launch=2)
    world.started("sim01", 2)
    world.launcher.signal(STEP, 2, "TERM")
    assert world.heard.next() == ("task", STEP, 2, "sim01", 0)


def test_node_workers_end_with_their_controller(tmp_path: Path) -> None:
    plan = plan_of(["sim01", "sim02"], [0, 1])
    code = (
        "import sys, signal; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from tests.shell.test_launch_local import World;"
        "import msgspec; from core.plan.bound import BoundPlan;"
        "world = World(Path(sys.argv[2]), ['sim01', 'sim02']);"
        "world.serve(msgspec.json.decode(Path(sys.argv[2], 'plan.json').read_bytes(), type=BoundPlan));"
        "signal.pause()"
    )
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(plan))
    controller = subprocess.Popen([sys.executable, "-c", code, str(REPOSITORY), str(tmp_path)], start_new_session=True)
    tasks = [tmp_path / "tasks" / f"writer-0.1.{node}.started.json" for node in ("sim01", "sim02")]
    until(lambda: all(path.exists() for path in tasks))
    everything = family(controller.pid)
    assert len(everything) == 7
    controller.kill()
    controller.wait()
    until(lambda: not any(map(alive, everything)))
