"""`dd-slurm rehearse` itself: whatever ends it also ends what it started, and it waits for that."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from shell.worker.descendants import signal_all
from tests.local.local_run import PATIENCE_S, REPOSITORY, authored, until
from tests.local.processes_of import MARK, processes_of

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-P", "-m", "shell.cli")
SITE = {"schema_version": 1, "workspace_root": "/unused", "gpus_per_node": 1, "container": "none"}


class Rehearsal:
    """The command in a session of its own, with two shards whose programs wait at a gate."""

    def __init__(
        self,
        folder: Path,
        command: Sequence[str] = COMMAND,
        options: Sequence[str] = (),
        changes: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.folder, self.mark = folder, os.urandom(8).hex()
        (folder / "profiles.json").write_text(json.dumps({"schema_version": 1, "clusters": {"here": SITE}}))
        (folder / "run.json").write_text(json.dumps(authored(changes) | {"array_tasks": {"count": 2}}))
        (folder / "gate").mkdir(exist_ok=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "DD_SLURM"))}
        settings = {MARK: self.mark, "LOCAL_TEST_GATE": str(folder / "gate"), "PYTHONPATH": str(REPOSITORY)}
        words = ["rehearse", "run.json", "--profile-file", "profiles.json", "--workspace", "work", "--json", *options]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *words],
                cwd=folder,
                env=inherited | settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def await_work(self) -> None:
        until(lambda: (self.folder / "gate" / "working").exists(), f"the program to work; {self.log.read_text()}")

    def ended(self) -> tuple[int, dict[str, Any]]:
        """Its exit code, and what it printed."""
        printed, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, json.loads(printed or b"{}")

    def record(self) -> dict[str, Any]:
        """`attempt.json` of the only attempt."""
        (path,) = self.folder.glob("work/runs/*/shards/*/attempts/*/attempt.json")
        return dict(json.loads(path.read_text()))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_it_alone_ends_all_in_order(folder: Path, number: signal.Signals) -> None:
    rehearsal = Rehearsal(folder)
    rehearsal.await_work()
    rehearsal.process.send_signal(number)
    code, said = rehearsal.ended()
    assert not processes_of(rehearsal.mark)
    assert code == 128 + number
    assert [shard["exit_code"] for shard in said["shards"]] == [128 + number]
    assert rehearsal.record()["cause"]["reason"] == number.name
    assert "on 1 simulated node: " in rehearsal.log.read_text()


def test_kill_of_it_ends_its_attempt_in_order(folder: Path) -> None:
    rehearsal = Rehearsal(folder)
    rehearsal.await_work()
    rehearsal.process.kill()
    rehearsal.ended()
    until(lambda: not processes_of(rehearsal.mark), "all to be gone")
    assert rehearsal.record()["state"] == "INTERRUPTED"


def test_under_nohup_a_closed_terminal_ends_nothing(folder: Path) -> None:
    rehearsal = Rehearsal(folder, ("nohup", *COMMAND))
    try:
        rehearsal.await_work()
        os.killpg(rehearsal.process.pid, signal.SIGHUP)
        (folder / "gate" / "open").touch()
        code, said = rehearsal.ended()
    finally:
        signal_all(list(processes_of(rehearsal.mark)), signal.SIGKILL)
    assert (code, [shard["records"] for shard in said["shards"]]) == (0, [2, 2]), rehearsal.log.read_text()


def test_modules_of_the_user_are_not_taken_for_others(folder: Path) -> None:
    for name in ("shell", "core", "types", "random", "queue"):
        (folder / f"{name}.py").write_text("raise RuntimeError('a module of the user')")
    rehearsal = Rehearsal(folder)
    (folder / "gate" / "open").touch()
    assert rehearsal.ended()[0] == 0, rehearsal.log.read_text()


def test_real_servers_are_those_of_the_run_file_and_are_judged(folder: Path) -> None:
    vllm = folder / "vllm"
    vllm.write_text(f'#!/bin/sh\necho "$0" "$@" >> {folder}/started\nexec {sys.executable} -m shell.simulate "$@"\n')
    vllm.chmod(0o755)
    changes = {"model": str(folder / "model"), "server": {"executable": str(vllm)}}
    refused = Rehearsal(folder, options=("--real-servers",), changes=changes)
    assert refused.ended()[0] == 78
    assert f"{folder}/model" in refused.log.read_text()
    (folder / "model").mkdir()
    (folder / "gate" / "open").touch()
    rehearsal = Rehearsal(folder, options=("--real-servers",), changes=changes)
    assert rehearsal.ended()[0] == 0, rehearsal.log.read_text()
    assert f"{vllm} serve {folder}/model " in (folder / "started").read_text()
