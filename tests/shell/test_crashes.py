"""`kill -9` before and after every single call that changes a file: of finalizing and of retrying, and what follows.

Submissions are tried so in `test_submit.py`, merges in `test_merge.py`.
"""

from pathlib import Path

import pytest
from returns.pipeline import is_successful

from core.plan.shards import Shard
from core.record.retry import RetryAsked
from core.submit import state as s
from shell.attempt.results import check_result, declare_winner
from shell.operate import retry
from shell.operate.opened import open_run
from shell.submission.submit import Submitter
from tests.shell.faulty_disk import Died, dies_at_each_call, disk
from tests.shell.operate_world import World
from tests.shell.operate_world import world as world
from tests.shell.test_submit_command import IMPATIENT

JSONL = '{"a":1}\n{"a":2}\n{"a":3}\n{"a":4}\n'
GONE = "43|41_1|NODE_FAIL|1:0|0:0|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:02|n1"


def finalize(world: World, number: int) -> None:
    """What a controller does when its client has ended."""
    paths = world.paths.attempt(0, number)
    assert check_result(paths, Shard(index=0, offset=0, records=4)) == ()
    declare_winner(world.paths, 0, number)


def test_finalizing(world: World) -> None:
    """A winner, once it is there, never changes, and its result is there too."""
    world.won(0, {"a.jsonl": JSONL})
    attempt, winner = world.paths.attempt(0, 1), Path(world.paths.winner(0))
    Path(attempt.claim).write_bytes(Path(attempt.result).read_bytes())
    wanted = winner.read_bytes()

    winner.unlink()
    Path(attempt.result).unlink()
    deaths = 0
    for _ in dies_at_each_call(lambda: finalize(world, 1)):
        deaths += 1
        if winner.exists():
            assert winner.read_bytes() == wanted
            assert Path(attempt.result).exists()
        finalize(world, 1)
        assert winner.read_bytes() == wanted
        winner.unlink()
        Path(attempt.result).unlink()
    assert deaths > 15


def test_a_winner_is_never_changed_by_a_late_attempt_that_dies(world: World) -> None:
    world.won(0, {"a.jsonl": JSONL})
    winner = Path(world.paths.winner(0))
    wanted = winner.read_bytes()
    assert world.won(0, {"a.jsonl": JSONL}) == 2
    for _ in dies_at_each_call(lambda: declare_winner(world.paths, 0, 2)):
        assert winner.read_bytes() == wanted


def retry_calls(world: World) -> None:
    opened = open_run(str(world.root)).unwrap()
    assert is_successful(retry.retry_run(opened, RetryAsked(), dry_run=False, patience=IMPATIENT))


def recover(world: World) -> None:
    """What people do after a crash: take the run up, and retry if that did not bring a job."""
    opened = open_run(str(world.root)).unwrap()
    number, end = Submitter(str(world.root), opened.scheduler, IMPATIENT).go_on().unwrap()
    if number == 1 or not isinstance(end, s.Queued):
        retry_calls(world)


def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> World:
    folder = tmp_path / str(number)
    folder.mkdir()
    made = World(folder, monkeypatch)
    made.submit()
    made.won(0, {"a.jsonl": JSONL})
    made.won(2, {"a.jsonl": JSONL})
    made.accounting(GONE)
    return made


@pytest.mark.slow
def test_retrying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it dies: afterwards one job, and only one, was let go for the shard; nothing stays held."""
    whole = begin(tmp_path, monkeypatch, 0)
    with disk(None) as counted:
        retry_calls(whole)
    own = counted.calls
    tried = 0
    for last in range(1, own + 1):
        for after in (False, True):
            tried += 1
            world = begin(tmp_path, monkeypatch, tried)
            try:
                with disk(last, after):
                    retry_calls(world)
            except Died:
                recover(world)
            states = list(world.slurm.states().values())
            assert states.count("RELEASED") == 2, f"the first job and the retry; call {last}, {after=}: {states}"
            assert "HELD" not in states
    assert tried > 40
