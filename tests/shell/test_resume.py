"""After the time limit: the output is taken over by the next attempt, and another job goes on with the shard."""

import json
from pathlib import Path

import pytest

from core.supervise.verdict import OutOfTime
from shell.attempt.resume import go_on_in_another_job, take_over
from shell.store import write_atomic
from shell.submission import submissions
from shell.submission.runs import read_run
from tests.shell.operate_world import World
from tests.shell.test_submit_command import RUN


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path, monkeypatch)
    made.site.run_file.write_text(f"{RUN}on_time_limit: {{resume: auto, margin: 5m}}\n")
    made.submit()
    return made


def out_of_time(world: World, shard: int, records: int) -> int:
    number = world.attempt(shard, OutOfTime())
    paths = world.paths.attempt(shard, number)
    (Path(paths.output) / f"batch-{number}").touch()
    progress = {"records_done": records, "records_wanted": 100, "at_unix_ms": 1}
    write_atomic(paths.progress, json.dumps(progress).encode())
    return number


def test_the_job_that_goes_on_is_for_this_shard_and_waits_for_this_job(world: World) -> None:
    number = out_of_time(world, 1, 5)
    _, plan = read_run(str(world.root))
    said = go_on_in_another_job(world.paths, plan, 1, number, "77")
    assert said is not None
    assert said.endswith("goes on after this one (follow-up 1)")
    script = Path(world.paths.submission(2).batch).read_text()
    assert "#SBATCH --array=1\n" in script
    assert "#SBATCH --dependency=afterany:77\n" in script


def test_a_number_that_another_task_has_taken_is_left_to_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    number = out_of_time(world, 1, 5)
    real = submissions.latest_number
    stale = [0]

    def latest(run: object) -> int | None:
        return stale.pop() if stale else real(world.paths)

    monkeypatch.setattr(submissions, "latest_number", latest)
    before = Path(world.paths.submission(1).intent).read_bytes()
    _, plan = read_run(str(world.root))
    assert "follow-up 1" in str(go_on_in_another_job(world.paths, plan, 1, number, "77"))
    assert Path(world.paths.submission(1).intent).read_bytes() == before
    assert Path(world.paths.submission(2).receipt).exists()
    assert not Path(world.paths.submission(3).intent).exists()


def test_nothing_is_submitted_when_no_record_was_made(world: World) -> None:
    out_of_time(world, 1, 5)
    number = out_of_time(world, 1, 5)
    _, plan = read_run(str(world.root))
    assert "no record was made" in str(go_on_in_another_job(world.paths, plan, 1, number, "77"))
    assert not Path(world.paths.submission(2).intent).exists()


def test_output_is_always_in_one_place(world: World) -> None:
    first = out_of_time(world, 1, 5)
    second = world.attempt(1, None)
    _, plan = read_run(str(world.root))
    taken = take_over(world.paths, plan, 1, second)
    assert taken is not None
    assert (taken.number, taken.mode) == (first, "if_possible")
    assert [path.name for path in Path(world.paths.attempt(1, second).output).iterdir()] == [f"batch-{first}"]
    assert not Path(world.paths.attempt(1, first).output).exists()
    third = world.attempt(1, None)
    again = take_over(world.paths, plan, 1, third)
    assert again is not None
    assert again.number == second
