"""``dd-slurm retry`` and ``dd-slurm cancel`` as users meet them, with stand-ins for Slurm's commands."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core.supervise.verdict import ClientFailed, OutOfTime
from shell.commands import retry as retry_command
from shell.operate import cancel, retry
from shell.operate.observe import observe as observe_run
from shell.submission.submissions import submission_of
from tests.shell.operate_world import World
from tests.shell.operate_world import world as world
from tests.shell.test_submit_command import IMPATIENT, Said

DAY = "2026-01-01T00:00"
JSONL = '{"a":1}\n{"a":2}\n{"a":3}\n{"a":4}\n'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_command, "PATIENCE", IMPATIENT)
    monkeypatch.setattr(cancel, "LOOK_EVERY_S", 0.01)


def ended(index: int, state: str, nodes: str = "n7") -> str:
    return f"4{index + 2}|41_{index}|{state}|1:0|0:0|{DAY}:00|{DAY}:01|{DAY}:02|{nodes}"


def mixed(world: World) -> None:
    """One has won, one failed with its node, one ran out of time."""
    world.won(0, {"a.jsonl": JSONL})
    world.attempt(1, None, "43")
    world.attempt(2, OutOfTime(), "44")
    world.accounting(ended(1, "NODE_FAIL"), ended(2, "FAILED"))


def test_a_sparse_array_of_what_failed(world: World) -> None:
    mixed(world)
    said = world.say("retry", "--json")
    answer = json.loads(said.out)
    assert said.code == 0
    assert (answer["state"], answer["submission"], answer["job_id"]) == ("submitted", 2, "42")
    assert (answer["shards"], answer["excluded"], answer["resume"]) == ([1], ["n7"], "never")
    assert answer["reasons"] == ["shard 1: node-fail, a node failed (n7)"]
    assert [one["shard"] for one in answer["passed"]] == [2]
    script = Path(world.paths.submission(2).batch).read_text()
    assert "#SBATCH --array=1\n" in script
    assert "#SBATCH --exclude=n7\n" in script
    assert world.slurm.states() == {"41": "RELEASED", "42": "RELEASED"}


def test_resume_and_time_limit_reach_the_job(world: World) -> None:
    mixed(world)
    assert world.say("retry", "--resume", "if_possible", "--time-limit", "08:00:00").code == 0
    script = Path(world.paths.submission(2).batch).read_text()
    assert "#SBATCH --array=1-2\n" in script
    assert "#SBATCH --time=08:00:00\n" in script
    intent = submission_of(world.paths, "42")
    assert intent is not None
    assert intent.retry is not None
    assert intent.retry.resume == "if_possible"
    assert submission_of(world.paths, "77") is None


def test_a_dry_run_changes_nothing(world: World) -> None:
    mixed(world)
    said = world.say("retry", "--dry-run")
    assert said.code == 0
    assert said.out.splitlines() == [
        "retry shard 1: node-fail, a node failed (n7)",
        "leave shard 2: its time limit would end it again: give --resume if_possible, or a longer --time-limit",
        "resume: never",
        "avoided: n7",
        "nothing was submitted: --dry-run",
    ]
    assert len([call for call in world.slurm.calls("sbatch") if "--hold" in call]) == 1
    assert not Path(world.paths.submission(2).intent).exists()


def test_what_runs_is_never_submitted_again(world: World) -> None:
    world.queue("41|41|0-2|PENDING|Resources|")
    said = world.say("retry")
    assert said.code == 65
    assert "there is nothing to retry: shard 0: it is pending (Resources)" in said.err
    said = world.say("retry", "--shard", "1")
    assert "shard 1 gets no new job: it is pending" in said.err
    assert world.slurm.states() == {"41": "RELEASED"}


def test_not_while_a_submission_is_unclear(world: World) -> None:
    mixed(world)
    world.slurm.sbatch_does("accept; exit 0")
    world.slurm.fails("squeue", "")
    (world.slurm.folder / "queue.error").write_text("slurm_load_jobs error: down\n")
    (world.slurm.folder / "squeue.error").write_text("")
    assert world.say("retry").code == 75
    said = world.say("retry")
    assert said.code == 65
    assert "it is not known whether Slurm has the job of submission 2" in said.err
    assert f"dd-slurm submit {world.root}" in said.err
    assert world.slurm.states() == {"41": "RELEASED", "42": "HELD"}


def test_a_plan_that_was_changed(world: World) -> None:
    mixed(world)
    path = Path(world.paths.plan)
    path.write_text(path.read_text().replace("00:30:00", "00:31:00") + " ")
    said = world.say("retry")
    assert said.code == 65
    assert "plan.json is not what submission 1 was made from" in said.err


def test_a_refused_retry_is_not_followed_by_all_shards(world: World) -> None:
    """`dd-slurm submit RUN` takes up; once Slurm has had a job, it submits nothing by itself."""
    mixed(world)
    world.slurm.sbatch_does("echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1")
    assert world.say("retry").code == 78
    world.slurm.sbatch_does("accept; echo $id")
    assert Said("submit", str(world.root)).code == 78
    assert world.slurm.states() == {"41": "RELEASED"}
    assert world.say("retry").code == 0
    assert world.slurm.states() == {"41": "RELEASED", "42": "RELEASED"}


def test_somebody_else_submits_in_between(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided on an earlier look is decided anew."""
    mixed(world)
    looked: list[int] = []
    real = observe_run

    def observe(*words: object) -> object:
        seen = real(*words)  # type: ignore[arg-type]
        if not looked:
            looked.append(1)
            assert world.say("retry").code == 0
            world.queue("43|42|1|PENDING|Resources|", submission=2)
        return seen

    monkeypatch.setattr(retry, "observe", _once(observe, real))
    said = world.say("retry")
    assert said.code == 65
    assert "shard 1: it is pending" in said.err
    assert world.slurm.states() == {"41": "RELEASED", "42": "RELEASED"}


def _once(first: Callable[..., object], then: Callable[..., object]) -> Callable[..., object]:
    calls: list[int] = []

    def observe(*words: object) -> object:
        calls.append(1)
        return first(*words) if len(calls) == 1 else then(*words)

    return observe


def test_a_word_that_is_none(world: World) -> None:
    mixed(world)
    assert world.say("retry", "--resume", "maybe").code == 2
    said = world.say("retry", "--time-limit", "long")
    assert said.code == 65
    assert "a time limit such as 03:55:00" in said.err


def test_cancel_by_id_until_it_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.queue("42|41|0|RUNNING|None|n1", "41|41|1-2|PENDING|Resources|")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            world.queue("42|41|0|CANCELLED|None|n1")

    monkeypatch.setattr(cancel, "pause", pause)
    said = world.say("cancel")
    assert said.code == 0
    assert said.out == "cancelled, and gone: 41\n"
    assert world.slurm.calls("scancel") == ["scancel 41"]
    said = world.say("cancel")
    assert (said.code, said.out) == (0, "nothing of this run was in the queue\n")
    assert world.slurm.calls("scancel") == ["scancel 41"]


def test_cancel_says_what_is_left(world: World) -> None:
    world.queue("42|41|0|RUNNING|None|n1")
    said = world.say("cancel", "--wait", "0", "--json")
    answer = json.loads(said.out)
    assert (said.code, answer["state"], answer["left"]) == (75, "left", ["41"])
    world.slurm.fails("scancel", "scancel: error: Unable to contact slurm controller\n")
    said = world.say("cancel", "--wait", "0")
    assert "may still run: 41 (Unable to contact slurm controller); call it again" in said.err


def test_cancel_while_a_submission_is_unclear(world: World) -> None:
    """The job that came up is found by its unique name, and only that one is cancelled."""
    mixed(world)
    world.slurm.sbatch_does("accept; exit 0")
    (world.slurm.folder / "queue.error").write_text("slurm_load_jobs error: down\n")
    assert world.say("retry").code == 75
    (world.slurm.folder / "queue.error").write_text("")
    said = world.say("cancel")
    assert said.code == 75
    assert "submission 2 is not settled" in said.err
    assert world.slurm.states() == {"41": "RELEASED", "42": "CANCELLED"}


def test_a_client_that_failed_is_retried(world: World) -> None:
    for shard in range(3):
        world.attempt(shard, ClientFailed(code=1, reasons=("no",)), f"4{shard + 2}", said="FAILED: no")
    world.accounting(*(ended(shard, "FAILED") for shard in range(3)))
    answer = json.loads(world.say("retry", "--json").out)
    assert answer["shards"] == [0, 1, 2]
    assert answer["reasons"][0] == "shard 0: failed, FAILED: no"
