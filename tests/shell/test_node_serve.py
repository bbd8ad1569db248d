"""A node worker runs its own slice of a plan, ends all when one ends, and leaves no process behind."""

import os
import resource
import signal
from pathlib import Path

import pytest

from core.plan.bound import EnvSecret
from core.plan.task import Ordered, RankEnded
from tests.shell.node_world import alive, family, plan_of, until, worker

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_runs_its_own_slice_whatever_the_task_number_says(tmp_path: Path) -> None:
    plan = plan_of(["c1", "c2"], [0, 1, 1])
    with worker(plan, tmp_path, "c2", SLURM_PROCID="0", SLURM_NODEID="0") as running:
        lanes = running.started().lanes
        assert [lane.name for lane in lanes] == ["writer-0.r1", "writer-0.r2"]
        log = Path(lanes[0].log).read_text()
        assert Path(lanes[0].log).name == "writer-0.1.writer-0.r1.log"
        assert "CUDA_VISIBLE_DEVICES 1\n" in log
        assert "VLLM_HOST_IP 127.0.1.2\n" in log
        assert "SLURM_PROCID None\n" in log
        assert "serve some/model --served-model-name writer-model run.0.1.writer-0.1 --host=127.0.1.2" in log


@pytest.mark.parametrize("code", [0, 3])
def test_the_first_end_ends_the_siblings_whatever_its_code(tmp_path: Path, code: int) -> None:
    go = tmp_path / "go"
    plan = plan_of(["c1"], [0, 0, 0], f"1:exit-when:{go}={code}")
    with worker(plan, tmp_path, "c1") as running:
        pids = [lane.pid for lane in running.started().lanes]
        go.touch()
        assert running.code() == 1
        assert not any(map(alive, pids))
        record = running.ended()
        assert record.cause == RankEnded(lane="writer-0.r1")
        assert record.rest == "ended"
        assert {lane.name: lane.code for lane in record.lanes} == {
            "writer-0.r0": 0,
            "writer-0.r1": code,
            "writer-0.r2": 0,
        }
        assert f"writer-0.r1 ended with {code}" in running.said()


def test_a_killed_rank_ends_its_siblings(tmp_path: Path) -> None:
    with worker(plan_of(["c1"], [0, 0]), tmp_path, "c1") as running:
        first, second = running.started().lanes
        os.kill(first.pid, signal.SIGKILL)
        assert running.code() == 1
        assert not alive(second.pid)
        assert {lane.name: lane.code for lane in running.ended().lanes} == {"writer-0.r0": -9, "writer-0.r1": 0}
        assert "writer-0.r0 ended by signal 9" in running.said()


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_stops_in_order_when_told(tmp_path: Path, asked: signal.Signals) -> None:
    with worker(plan_of(["c1"], [0, 0]), tmp_path, "c1") as running:
        running.started()
        running.process.send_signal(asked)
        assert running.code() == 0
        record = running.ended()
        assert record.cause == Ordered(signal=asked.name)
        assert record.rest == "ended"
        assert [lane.code for lane in record.lanes] == [0, 0]


@pytest.mark.parametrize("warning", [signal.SIGHUP, signal.SIGUSR1])
def test_warnings_of_slurm_end_nothing(tmp_path: Path, warning: signal.Signals) -> None:
    with worker(plan_of(["c1"], [0]), tmp_path, "c1") as running:
        running.started()
        running.process.send_signal(warning)
        running.process.send_signal(signal.SIGTERM)
        assert running.code() == 0
        assert running.ended().cause == Ordered(signal="SIGTERM")


def test_a_signal_that_slurm_sends_to_all_processes_of_the_step_kills_no_server(tmp_path: Path) -> None:
    """Observed on 22.05: what `srun` forwards goes to every process, so the order to stop reached servers as USR2."""
    with worker(plan_of(["c1"], [0, 0]), tmp_path, "c1") as running:
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            for lane in running.started().lanes:
                os.kill(lane.pid, number)
        (inner,) = [pid for pid in family(running.process.pid)[1:] if pid == running.started().worker_pid]
        os.kill(inner, signal.SIGUSR2)
        assert running.code() == 0
        assert [lane.code for lane in running.ended().lanes] == [0, 0]
        assert running.ended().cause == Ordered(signal="SIGUSR2")


def test_a_rank_that_ignores_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    plan = plan_of(["c1"], [0, 0], "0:ignore-term:", grace_ms=200)
    with worker(plan, tmp_path, "c1") as running:
        running.started()
        running.process.terminate()
        assert running.code() == 0
        record = running.ended()
        assert record.rest == "killed"
        assert {lane.name: lane.code for lane in record.lanes} == {"writer-0.r0": -9, "writer-0.r1": 0}


def test_a_grandchild_that_hides_is_ended_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "hidden.pid"
    plan = plan_of(["c1"], [0, 0], f"0:hide:{pid_file}", grace_ms=200)
    with worker(plan, tmp_path, "c1") as running:
        running.started()
        hidden = int(pid_file.read_text())
        os.kill(running.started().lanes[1].pid, signal.SIGKILL)
        assert running.code() == 1
        assert not alive(hidden)
        assert running.ended().rest == "killed"


def test_a_grandchild_that_hides_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "hidden.pid"
    with worker(plan_of(["c1"], [0], f"0:hide-politely:{pid_file}", grace_ms=60_000), tmp_path, "c1") as running:
        running.started()
        hidden = int(pid_file.read_text())
        running.process.terminate()
        assert running.code() == 0
        assert not alive(hidden)
        assert running.ended().rest == "ended"


def test_every_rank_has_a_session_of_its_own_and_all_the_open_files_it_may_have(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        with worker(plan_of(["c1"], [0, 0]), tmp_path, "c1") as running:
            lanes = running.started().lanes
            assert [os.getsid(lane.pid) for lane in lanes] == [lane.pid for lane in lanes]
            assert f"open files {hard} {hard}\n" in Path(lanes[0].log).read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_kill_of_the_worker_leaves_nothing(tmp_path: Path) -> None:
    pid_file = tmp_path / "hidden.pid"
    with worker(plan_of(["c1"], [0, 0], f"0:hide:{pid_file}"), tmp_path, "c1") as running:
        started = running.started()
        everything = family(running.process.pid)
        assert len(everything) == 5
        assert int(pid_file.read_text()) in everything
        os.kill(started.worker_pid, signal.SIGKILL)
        assert running.code() == 128 + signal.SIGKILL
        assert not any(map(alive, everything))


def test_kill_of_the_guard_ends_the_worker_in_order(tmp_path: Path) -> None:
    scratch = tmp_path / "node"
    scratch.mkdir()
    with worker(plan_of(["c1"], [0, 0]), tmp_path, "c1", TMPDIR=str(scratch)) as running:
        started = running.started()
        everything = family(running.process.pid)
        running.process.kill()
        until(lambda: not any(map(alive, everything)))
        assert running.ended().cause == Ordered(signal="SIGTERM")
        assert len(started.lanes) == len(running.ended().lanes) == 2
        assert not list(scratch.iterdir())


def test_launch_delays_come_before_each_rank_and_can_be_interrupted(tmp_path: Path) -> None:
    plan = plan_of(["c1"], [0, 0], delays_ms=[0, 3_600_000])
    with worker(plan, tmp_path, "c1") as running:
        log = tmp_path / "logs" / "writer-0.1.writer-0.r0.log"
        until(lambda: log.exists() and "ready\n" in log.read_text())
        running.process.terminate()
        assert running.code() == 0
        assert [lane.name for lane in running.ended().lanes] == ["writer-0.r0"]


def test_logs_of_launches_are_kept_apart_and_scratch_is_removed(tmp_path: Path) -> None:
    for launch in (1, 2):
        scratch = tmp_path / "node"
        scratch.mkdir(exist_ok=True)
        with worker(plan_of(["c1"], [0]), tmp_path, "c1", launch, TMPDIR=str(scratch)) as running:
            running.started()
            running.process.terminate()
            assert running.code() == 0
        assert not list(scratch.iterdir())
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "writer-0.1.writer-0.r0.log",
        "writer-0.2.writer-0.r0.log",
    ]


def test_records_that_cannot_be_written_end_nothing(tmp_path: Path) -> None:
    for name in ("writer-0.1.c1.started.json", "writer-0.1.c1.json"):
        (tmp_path / "tasks" / name).mkdir(parents=True)
    with worker(plan_of(["c1"], [0]), tmp_path, "c1") as running:
        until(lambda: "started.json cannot be written: Is a directory" in running.said())
        running.process.terminate()
        assert running.code() == 0
        assert "c1.json cannot be written: Is a directory" in running.said()


def test_an_executable_that_is_not_there(tmp_path: Path) -> None:
    plan = plan_of(["c1"], [0], executable=("/no/such/vllm",))
    with worker(plan, tmp_path, "c1") as running:
        assert running.code() == os.EX_CONFIG
        assert "writer-0.r0 cannot be started: /no/such/vllm: not found" in running.said()


def test_a_secret_that_is_not_in_the_environment(tmp_path: Path) -> None:
    plan = plan_of(["c1"], [0], environment=(EnvSecret(name="HF_TOKEN", environment="MY_TOKEN"),))
    with worker(plan, tmp_path, "c1") as running:
        assert running.code() == os.EX_CONFIG
        assert "not in the environment of 'c1': MY_TOKEN" in running.said()


@pytest.mark.parametrize("own", ["Compute-001", "compute-001", "compute-001.cluster.example", "COMPUTE-001"])
def test_finds_its_node_in_other_spellings_when_they_are_clear(tmp_path: Path, own: str) -> None:
    with worker(plan_of(["Compute-001", "gpu-a"], [0, 1]), tmp_path, own) as running:
        until(lambda: (tmp_path / "tasks" / "writer-0.1.Compute-001.started.json").exists())
        running.process.terminate()
        assert running.code() == 0


def test_a_node_that_could_be_two(tmp_path: Path) -> None:
    with worker(plan_of(["Node1", "node1"], [0, 1]), tmp_path, "NODE1") as running:
        assert running.code() == os.EX_CONFIG
        assert "this node, 'NODE1', could be any of Node1, node1" in running.said()


def test_a_node_that_is_not_in_the_plan(tmp_path: Path) -> None:
    with worker(plan_of(["c1", "c2"], [0, 1]), tmp_path, "c3") as running:
        assert running.code() == os.EX_CONFIG
        assert "this node, 'c3', is not among c1, c2" in running.said()


def test_a_node_without_a_part_in_the_step(tmp_path: Path) -> None:
    with worker(plan_of(["c1", "c2"], [0]), tmp_path, "c2") as running:
        assert running.code() == os.EX_CONFIG
        assert "step 'writer-0' has nothing to run on 'c2'" in running.said()
