"""A run folder and controllers in it: started as people and Slurm start them, watched through files only."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from core.plan.judge import Rehearsal
from core.supervise.events import Event
from core.supervise.state import Finished
from core.supervise.step import begin, step
from core.supervise.verdict import Verdict
from shell.attempt.interpreter import Begun
from shell.authored.authoring import read_and_plan
from shell.submission.runs import create_run
from shell.worker.descendants import signal_all
from tests.local.processes_of import MARK, processes_of, victim

REPOSITORY = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
FOLDERS_OF_CLIENT = {"output", "data-designer-home"}
"""What is in them is made by the client's program, with modes of its own; the attempt's folder keeps others out."""
STAND_IN = (sys.executable, "-m", "shell.simulate")
PATIENCE_S = 60.0
"""How long a test waits for what must happen; far above what it takes."""
HOLD = """
import os, sys, time
while {words!r} in " ".join(sys.orig_argv) and not os.path.exists({release!r}):
    time.sleep(0.02)
"""


def until(true: Callable[[], object], what: str) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.03)


class LocalRun:
    """A run that was made from a run file with `changes` in its only deployment."""

    def __init__(
        self,
        folder: Path,
        changes: Mapping[str, Any],
        top: Mapping[str, Any],
        gpus_per_node: int,
        executable: Sequence[str],
    ) -> None:
        self.folder, self.mark = folder, secrets.token_hex(8)
        self.gate = folder / "gate"
        self.gate.mkdir()
        self.started: list[Controller] = []
        catalog = folder / "profiles.json"
        site = {"schema_version": 1, "workspace_root": "/unused", "gpus_per_node": gpus_per_node, "container": "none"}
        catalog.write_text(json.dumps({"schema_version": 1, "clusters": {"here": site}}))
        run_file = folder / "run.json"
        run_file.write_text(
            json.dumps({name: value for name, value in (authored(changes) | dict(top)).items() if value})
        )
        planned = read_and_plan(str(run_file), str(catalog), "here", str(folder / "workspace"))
        _, self.paths = create_run(planned.unwrap(), Rehearsal(executable=tuple(executable))).unwrap()

    def start(
        self, simulate: Mapping[str, Any] | None = None, environ: Mapping[str, str] = {}, before: Sequence[str] = ()
    ) -> "Controller":
        """A controller, as `dd-slurm rehearse` starts it; `before` is a command such as nohup."""
        started = Controller(self, simulate or {}, environ or {}, before)
        self.started.append(started)
        return started

    def hold(self, words: str) -> dict[str, str]:
        """Variables with which processes whose command line holds these words wait at their birth, until released."""
        folder = self.folder / "hold"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(HOLD.format(words=words, release=str(folder / "release")))
        return {"PYTHONPATH": f"{REPOSITORY}:{folder}"}

    def release(self) -> None:
        """Let those go on that are held."""
        (self.folder / "hold" / "release").touch()

    def open_gate(self) -> None:
        """Let programs go on."""
        (self.gate / "open").touch()

    @property
    def works(self) -> bool:
        """Whether a program has got its first record."""
        return (self.gate / "working").exists()

    def processes(self) -> list[str]:
        """Command lines of all that lives."""
        return [process.command for process in processes_of(self.mark).values()]

    def await_nothing_left(self) -> None:
        """After a death, guards need a moment to end what it left."""
        until(lambda: not self.processes(), f"{self.processes()} to be gone")

    def attempt(self, number: int) -> Path:
        return Path(self.paths.attempt(0, number).root)

    def record(self, number: int) -> dict[str, Any]:
        """`attempt.json`."""
        return dict(json.loads((self.attempt(number) / "attempt.json").read_text()))

    def verdict(self, number: int) -> Verdict:
        """The verdict in `attempt.json`."""
        verdict: Verdict = msgspec.convert(self.record(number)["cause"], type=Verdict)
        return verdict

    def story(self, number: int) -> str:
        return "\n".join(self.record(number)["story"])

    def winner(self) -> dict[str, Any]:
        return dict(json.loads(Path(self.paths.winner(0)).read_text()))

    def rows(self) -> list[int]:
        """The numbers of the records of the winner."""
        result = self.folder / self.paths.root / self.winner()["result"]
        files = [result.parent / "output" / file["path"] for file in json.loads(result.read_text())["files"]]
        return [json.loads(line)["number"] for file in files for line in file.read_text().splitlines()]

    def check_files(self) -> None:
        """Whatever was killed: each file of ours is whole, and only its owner can read it."""
        for path in Path(self.paths.root).rglob("*"):
            mode = path.stat().st_mode & 0o777
            made_by_client = FOLDERS_OF_CLIENT & {path.name, *(parent.name for parent in path.parents)}
            assert made_by_client or mode == (0o700 if path.is_dir() else 0o600), f"{path} has mode {mode:o}"
            if path.suffix == ".json":
                json.loads(path.read_text())

    def end(self) -> None:
        """Kill what the test has not ended, and tell whether something was left."""
        for controller in self.started:
            controller.kill()
        signal_all(list(processes_of(self.mark)), signal.SIGKILL)


class Controller:
    """One `python -m shell.run`."""

    def __init__(
        self, run: LocalRun, simulate: Mapping[str, Any], environ: Mapping[str, str], before: Sequence[str]
    ) -> None:
        self._run = run
        self.log = run.folder / f"controller-{len(run.started)}.log"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "DD_SLURM"))}
        settings = {
            MARK: run.mark,
            "LOCAL_TEST_GATE": str(run.gate),
            "DD_SLURM_SIMULATE": json.dumps(simulate),
            "PYTHONPATH": str(REPOSITORY),
        }
        options = ["--run-dir", run.paths.root, "--shard", "0", "--launcher", "local"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*before, sys.executable, "-m", "shell.run", *options],
                env=inherited | settings | dict(environ),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                process_group=0,
            )

    def send(self, number: int) -> None:
        """To the process that was started."""
        self._process.send_signal(number)

    def send_to_group(self, number: int) -> None:
        """As terminals do."""
        os.killpg(self._process.pid, number)

    def says(self, words: str) -> None:
        """Wait until it has said this."""
        until(lambda: words in self.log.read_text(), f"{words!r}; {self.log.read_text()}")

    def victim(self, which: str) -> int:
        """Wait for the process that is meant."""
        found: list[int] = []

        def look() -> bool:
            pid = victim(self._run.mark, self._process.pid, which)
            found.extend([pid] if pid is not None else [])
            return bool(found)

        until(look, f"{which}; {self.log.read_text()}")
        return found[0]

    def code(self) -> int:
        """Its exit code; negative for a signal."""
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end: {self.log.read_text()}") from None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def authored(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A run file with a quick program and one model."""
    quick = {"lead_boot_standoff": 0, "rank_launch_stagger": 0}
    deployment = {"model_alias": "m", "model": "/models/m", "on_failure": {"policy": "restart", "backoff": "1s"}}
    given = dict(changes)
    deployment["server"] = quick | given.pop("server", {})
    return {
        "schema_version": 1,
        "name": "local",
        "client": {"command": [sys.executable, "-S", "-E", str(PROGRAM)]},
        "invocation": {"num_records": 4},
        "deployments": [deployment | given],
    }


def replayed(attempt: Path) -> Verdict | None:
    """The verdict that follows from the journal alone; None when the story was cut off."""
    first, *rest = (attempt / "events.jsonl").read_bytes().splitlines()
    begun = msgspec.json.decode(first, type=Begun)
    state, _ = begin(begun.plan, begun.at)
    for line in rest:
        state, _ = step(begun.plan, state, msgspec.json.decode(line, type=Event))
    return state.phase.verdict if isinstance(state.phase, Finished) else None
