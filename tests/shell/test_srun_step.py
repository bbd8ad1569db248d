"""One ``srun``, played by a script: what is tried again, what is not, and how it is told to stop."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.slurm.srun_says import MOST_TRIES, failed_in_passing, pause_before_try_s
from core.units import NodeName
from shell.launch.processes import Reaper
from shell.launch.srun_step import SrunStep
from tests.shell.node_world import until

BUSY = "srun: error: unable to initialize step context socket: Address already in use"


class Played:
    """A step whose ``srun`` is a shell script; `tries` counts its starts."""

    def __init__(
        self, folder: Path, reaper: Reaper, script: str, patience_s: float = 60, repeatable: bool = False
    ) -> None:
        self.folder = folder
        self.codes: list[int] = []
        self.tasks: list[tuple[NodeName, int]] = []
        argv = ("sh", "-c", f"echo try >>{folder}/tries\n{script}")
        environ = {"PATH": os.environ["PATH"]}
        log = str(folder / "log")
        self.step = SrunStep(reaper, argv, environ, log, self._task, self.codes.append, patience_s, repeatable)
        self.step.start()

    def _task(self, node: NodeName, code: int) -> None:
        self.tasks.append((node, code))

    @property
    def tries(self) -> int:
        path = self.folder / "tries"
        return len(path.read_text().split()) if path.exists() else 0

    def code(self) -> int:
        until(lambda: bool(self.codes))
        (code,) = self.codes
        return code


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    made = Reaper()
    yield made
    made.close()


def test_a_step_that_could_not_be_made_just_now_is_tried_again(tmp_path: Path, reaper: Reaper) -> None:
    script = f'[ -e {tmp_path}/second ] && exit 0\ntouch {tmp_path}/second\necho "{BUSY}" >&2\nexit 1'
    played = Played(tmp_path, reaper, script)
    assert played.code() == 0
    assert played.tries == 2
    assert "trying again in 0.5 s" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    "said",
    [
        "srun: error: Unable to create step for job 12: Requested node configuration is not available",
        "srun: error: Unable to create step for job 12: Job/step already completing or completed",
        "srun: error: c2: task 1: Exited with exit code 1",
        "RuntimeError: Address already in use",
    ],
)
def test_what_stays_wrong_is_not_tried_again(tmp_path: Path, reaper: Reaper, said: str) -> None:
    played = Played(tmp_path, reaper, f'echo "{said}" >&2\nexit 1')
    assert played.code() == 1
    assert played.tries == 1
    assert said in (tmp_path / "log").read_text()


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_node_that_did_not_take_its_task(tmp_path: Path, reaper: Reaper, repeatable: bool) -> None:
    said = "srun: error: Task launch for StepId=45.0 failed on node c2: Job credential expired"
    script = f'[ -e {tmp_path}/second ] && exit 0\ntouch {tmp_path}/second\necho "{said}" >&2\nexit 1'
    played = Played(tmp_path, reaper, script, repeatable=repeatable)
    assert played.code() == (0 if repeatable else 1)
    assert played.tries == (2 if repeatable else 1)


def test_ends_of_tasks_are_told_before_the_end_of_the_step(tmp_path: Path, reaper: Reaper) -> None:
    played = Played(tmp_path, reaper, 'echo "srun: error: c[1-2]: tasks 0-1: Killed" >&2\nexit 137')
    assert played.code() == 137
    assert played.tasks == [("c1", -9), ("c2", -9)]


def test_an_order_while_it_waits_ends_it_without_another_try(tmp_path: Path, reaper: Reaper) -> None:
    played = Played(tmp_path, reaper, f'echo "{BUSY}" >&2\nexit 1')
    until(lambda: "trying again" in ((tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""))
    played.step.signal("TERM")
    assert played.code() == 127
    assert played.tries == 1


def test_term_is_forwarded_as_usr2(tmp_path: Path, reaper: Reaper) -> None:
    played = Played(tmp_path, reaper, f"trap 'exit 5' USR2\ntouch {tmp_path}/ready\nwhile :; do sleep 0.05; done")
    until((tmp_path / "ready").exists)
    played.step.signal("TERM")
    assert played.code() == 5


def test_kill_is_term_and_then_kill(tmp_path: Path, reaper: Reaper) -> None:
    script = f"trap 'touch {tmp_path}/termed' TERM\ntouch {tmp_path}/ready\nwhile :; do sleep 0.05; done"
    played = Played(tmp_path, reaper, script, patience_s=0.3)
    until((tmp_path / "ready").exists)
    played.step.signal("KILL")
    assert played.code() == -signal.SIGKILL
    assert (tmp_path / "termed").exists()


def test_a_program_that_is_not_there(tmp_path: Path, reaper: Reaper) -> None:
    codes: list[int] = []
    log = str(tmp_path / "log")
    SrunStep(reaper, ("/no/srun",), {}, log, lambda node, code: None, codes.append, 60).start()
    assert codes == [127]
    assert "/no/srun: No such file or directory" in Path(log).read_text()


def test_tries_come_to_an_end() -> None:
    pauses = [pause_before_try_s(number) for number in range(2, MOST_TRIES + 2)]
    assert pauses[-1] is None
    assert pauses[:-1] == sorted(pause for pause in pauses if pause is not None)


@pytest.mark.parametrize(
    ("line", "passing"),
    [
        (BUSY, True),
        ("srun: error: Unable to create step for job 12: Socket timed out on send/recv operation", True),
        ("srun: error: Unable to create step for job 12: Unable to contact slurm controller (connect failure)", True),
        ("srun: Job step creation temporarily disabled, retrying (Requested nodes are busy)", False),
        ("srun: error: Unable to create step for job 12: Invalid job id specified", False),
        ("OSError: [Errno 98] Address already in use", False),
    ],
)
def test_which_lines_tell_of_something_that_passes(line: str, passing: bool) -> None:
    assert failed_in_passing(line) is passing
