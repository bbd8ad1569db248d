"""Submission with real files: killed before and after every single write and call, raced, and taken up again."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from core.codec import canonical_json
from core.layout import RunPaths
from core.submit import state as s
from core.submit.answer import Answer, Unclear
from core.submit.records import Job, NotAccepted, Submitted
from core.submit.request import Wanted
from core.submit.sight import Row, Seen, Sight
from shell import store
from shell.submission.runs import RunRecord
from shell.submission.submit import Submitter
from tests.core.plan_cases import planned

T = TypeVar("T")
IMPATIENT = s.Patience(look_every_ms=0, quiet_ms=0, releases=2, release_every_ms=0)
NEVER = 10_000


class FileSlurm:
    """A cluster whose jobs are files, so that it outlives a process that is killed. `tick` comes before each change."""

    def __init__(self, folder: Path, tick: Callable[[], None]) -> None:
        self.folder, self._tick = folder, tick
        self.lose_answer = False
        folder.mkdir(exist_ok=True)

    def submit_held(self, script: str, folder: str) -> Answer:
        self._tick()
        name = next(line for line in Path(script).read_text().splitlines() if "--job-name=" in line).partition("=")[2]
        job = str(len(list(self.folder.iterdir())) + 1)
        (self.folder / job).write_text(f"HELD {name}")
        self._tick()
        return Unclear(reason="lost") if self.lose_answer else Submitted(job=Job(job_id=job), how="answered")

    def look(self, job_name: str, user_id: int, since_unix_ms: int) -> Sight:
        found = [path.name for path in sorted(self.folder.iterdir()) if path.read_text().split()[1] == job_name]
        return Seen(rows=tuple(Row(job=Job(job_id=job), index=i, state="PENDING") for job in found for i in range(3)))

    def release(self, job: Job) -> str | None:
        self._change(job, "RELEASED")
        return None

    def cancel(self, job: Job) -> str | None:
        self._change(job, "CANCELLED")
        return None

    def _change(self, job: Job, state: str) -> None:
        self._tick()
        path = self.folder / job.job_id
        path.write_text(f"{state} {path.read_text().split()[1]}")
        self._tick()

    def states(self) -> list[str]:
        return [path.read_text().split()[0] for path in sorted(self.folder.iterdir())]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The folder of a run of three shards."""
    run = RunPaths(root=str(tmp_path / "run"))
    record = RunRecord(
        run_id="reviews-1",
        run_file="/run.yaml",
        base_folder="/",
        profile_file=None,
        user="me",
        python="/opt/python",
        bundle="/opt/bundle.zip",
        rehearsal=None,
    )
    store.make_folder(run.root)
    store.write_atomic(run.run, canonical_json(record))
    store.write_atomic(run.plan, canonical_json(planned([{}], array_tasks={"count": 3}).unwrap()))
    return run.root


def submitter(root: str, slurm: FileSlurm) -> Submitter:
    return Submitter(root, slurm, IMPATIENT)


def go_on(root: str, slurm: FileSlurm) -> tuple[int, s.End]:
    return submitter(root, slurm).go_on().unwrap()


def quiet() -> None:
    """Nothing happens."""


def test_files_of_a_submission(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    number, end = go_on(root, slurm)
    assert (number, end) == (1, s.Queued(submitted=Submitted(job=Job(job_id="1"), how="answered")))
    paths = RunPaths(root=root).submission(1)
    intent = json.loads(Path(paths.intent).read_text())
    assert intent["job_name"] == "data-designer-reviews-1-1"
    assert intent["indices"] == [0, 1, 2]
    assert f"--output={paths.logs}/slurm-%A_%a.out" in Path(paths.batch).read_text()
    assert os.path.isdir(paths.logs)
    assert os.stat(paths.batch).st_mode & 0o777 == 0o600
    assert os.path.exists(paths.released)
    assert slurm.states() == ["RELEASED"]


def test_asked_twice_submits_once(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    assert go_on(root, slurm) == go_on(root, slurm)
    assert slurm.states() == ["RELEASED"]


def test_a_lost_answer_is_found_by_name(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    slurm.lose_answer = True
    _, end = go_on(root, slurm)
    assert end == s.Queued(submitted=Submitted(job=Job(job_id="1"), how="found"))
    assert slurm.states() == ["RELEASED"]


def test_part_of_a_run_is_submitted_under_the_next_number(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    go_on(root, slurm)
    end = submitter(root, slurm).submit(2, Wanted(indices=(2, 0))).unwrap()
    assert isinstance(end, s.Queued)
    paths = RunPaths(root=root).submission(2)
    assert json.loads(Path(paths.intent).read_text())["indices"] == [0, 2]
    assert "#SBATCH --array=0,2\n" in Path(paths.batch).read_text()
    assert "#SBATCH --job-name=data-designer-reviews-1-2\n" in Path(paths.batch).read_text()


def test_after_a_refusal_the_next_number_is_used(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    away = NotAccepted(reason="away", cause="unreachable")
    slurm.submit_held = lambda script, folder: away  # type: ignore[method-assign]
    assert go_on(root, slurm) == (1, s.NotSubmitted(receipt=away))
    number, end = go_on(root, FileSlurm(tmp_path / "slurm", quiet))
    assert number == 2
    assert isinstance(end, s.Queued)


def test_a_job_that_comes_up_after_all_is_cancelled(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    slurm.submit_held = lambda script, folder: Unclear(reason="lost")  # type: ignore[method-assign]
    _, end = go_on(root, slurm)
    assert isinstance(end, s.NotSubmitted)
    (slurm.folder / "1").write_text("HELD data-designer-reviews-1-1")
    number, end = go_on(root, FileSlurm(tmp_path / "slurm", quiet))
    assert (number, slurm.states()) == (2, ["CANCELLED", "RELEASED"])


class Instructions:
    """Counts everything that changes the world, and ends the process, as by SIGKILL, at one of them."""

    def __init__(self, last: int) -> None:
        self.count, self._last = 0, last

    def tick(self) -> None:
        self.count += 1
        if self.count == self._last:
            os._exit(9)

    def around(self, function: Callable[..., T]) -> Callable[..., T]:
        def counted(*arguments: object, **named: object) -> T:
            self.tick()
            result = function(*arguments, **named)
            self.tick()
            return result

        return counted


CHANGES = ("open", "write", "fsync", "link", "replace", "unlink", "mkdir", "makedirs")


def killed_at(instruction: int, root: str, cluster: Path, lose_answer: bool) -> int:
    """Submit in a process that is killed there; how many instructions it had carried out."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        instructions = Instructions(instruction)
        for name in CHANGES:
            setattr(os, name, instructions.around(getattr(os, name)))
        slurm = FileSlurm(cluster, instructions.tick)
        slurm.lose_answer = lose_answer
        try:
            go_on(root, slurm)
        finally:
            count = instructions.count
            instructions.count = NEVER
            os.write(writer, str(count).encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return int(pipe.read() or instruction)


@pytest.mark.slow
@pytest.mark.parametrize("lose_answer", [False, True])
def test_killed_at_any_instruction_one_job_starts(root: str, tmp_path: Path, lose_answer: bool) -> None:
    """Enumerated, not sampled: before and after every write, link, sync and call of Slurm."""
    at, pristine = 1, tmp_path / "run"
    while True:
        case = tmp_path / f"case-{at}"
        case.mkdir()
        copy = str(case / "run")
        _copy(pristine, Path(copy))
        reached = killed_at(at, copy, case / "slurm", lose_answer)
        slurm = FileSlurm(case / "slurm", quiet)
        number, end = go_on(copy, slurm)
        assert isinstance(end, s.Queued), f"after instruction {at}: {end}"
        assert slurm.states().count("RELEASED") == 1, f"after instruction {at}: {slurm.states()}"
        assert "HELD" not in slurm.states(), f"after instruction {at}: {slurm.states()}"
        released = slurm.folder / end.submitted.job.job_id
        assert released.read_text() == f"RELEASED data-designer-reviews-1-{number}"
        if reached < at:
            assert at > 30, "so many instructions there are at least"
            return
        at += 1


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def test_two_that_race_submit_once(root: str, tmp_path: Path) -> None:
    """The other one comes while sbatch is being asked: it looks, finds the job and releases it; both agree."""
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    ends: list[tuple[int, s.End]] = []
    ask = slurm.submit_held

    def raced(script: str, folder: str) -> Answer:
        answer = ask(script, folder)
        ends.append(go_on(root, FileSlurm(tmp_path / "slurm", quiet)))
        return answer

    slurm.submit_held = raced  # type: ignore[method-assign]
    ends.append(go_on(root, slurm))
    assert [number for number, _ in ends] == [1, 1]
    assert ends[0] == ends[1]
    assert slurm.states() == ["RELEASED"]


def test_a_rival_that_gave_up_wins_and_our_late_job_never_runs(root: str, tmp_path: Path) -> None:
    slurm = FileSlurm(tmp_path / "slurm", quiet)
    ask = slurm.submit_held

    def late(script: str, folder: str) -> Answer:
        number, end = go_on(root, FileSlurm(tmp_path / "slurm", quiet))
        assert number == 2, "nothing was there for long enough, so the other one has submitted anew"
        assert isinstance(end, s.Queued)
        return ask(script, folder)

    slurm.submit_held = late  # type: ignore[method-assign]
    number, end = go_on(root, slurm)
    assert (number, end) == (1, s.Withdrawn(job=Job(job_id="2"), reason=None))
    assert slurm.states() == ["RELEASED", "CANCELLED"]
