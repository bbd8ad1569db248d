"""``dd-slurm status`` as users meet it, with stand-ins for Slurm's commands."""

import json
from pathlib import Path

import pytest

from core.supervise.verdict import ClientFailed
from shell.commands import status as status_command
from tests.shell.operate_world import World, digest
from tests.shell.operate_world import world as world
from tests.shell.test_submit_command import Said

DAY = "2026-01-01T00:00"
ROW = f"{DAY}:00|{DAY}:01|{DAY}:02|n7"
JSONL = '{"a":1}\n{"a":2}\n{"a":3}\n{"a":4}\n'


def test_a_table_for_people(world: World) -> None:
    world.won(0, {"a.jsonl": JSONL})
    world.attempt(1, ClientFailed(code=1, reasons=("no",)), "43", said="FAILED: the client ended with 1")
    world.queue("44|41|2|RUNNING|None|n1")
    world.accounting(f"43|41_1|FAILED|65:0|0:0|{ROW}")
    said = world.say("status")
    assert said.code == 1
    assert said.out.splitlines() == [
        f"run {world.root.name}: 4 of 10 records; 3 shards: 1 completed, 1 failed, 1 running",
        "SHARD  STATE      ATTEMPTS  RECORDS  JOB   WHERE  WHY",
        "0      completed  1         4/4                   attempt 1 won",
        "1      failed     1         0/3      41_1  n7     FAILED: the client ended with 1",
        "2      running    0         0/3      41_2  n1",
        "shard 1, the end of its last attempt:",
        "      0.1 s  began",
        "      0.2 s  FAILED: the client ended with 1",
        "next:",
        f"  mend what it says, then dd-slurm retry {world.root}",
    ]


def test_shards_that_are_alike_share_a_line(world: World) -> None:
    world.queue("41|41|0|PENDING|Resources|", "41|41|1|PENDING|Resources|", "41|41|2|PENDING|Resources|")
    said = world.say("status")
    assert said.code == 0
    assert "0-2    pending  0         0/10     41          Resources" in said.out


def test_json_and_the_calls_are_about_own_ids_only(world: World) -> None:
    world.queue("41|41|0|PENDING|Resources|")
    answer = json.loads(world.say("status", "--json").out)
    assert [one["state"] for one in answer["shards"]] == ["pending", "settling", "settling"]
    assert (answer["over"], answer["complete"], answer["records_wanted"]) == (False, False, 10)
    (asked,) = [call for call in world.slurm.calls("squeue") if "--jobs" in call]
    assert asked.endswith("--jobs=41")
    assert "--states=all" in asked
    (asked,) = [call for call in world.slurm.calls("sacct") if "--jobs" in call]
    assert "--jobs=41 " in asked
    assert "--duplicates" in asked


def test_what_is_missing_for_long_is_lost(world: World) -> None:
    """Each call sees a moment only; the folder remembers since when."""
    world.attempt(0, None, "42")
    assert {one["state"] for one in json.loads(world.say("status", "--json").out)["shards"]} == {"settling"}
    world.gone(299)
    assert {one["state"] for one in json.loads(world.say("status", "--json").out)["shards"]} == {"settling"}
    world.gone(301)
    said = json.loads(world.say("status", "--json").out)
    assert {one["state"] for one in said["shards"]} == {"lost"}
    world.queue("41|41|0-2|PENDING|Resources|")
    assert {one["state"] for one in json.loads(world.say("status", "--json").out)["shards"]} == {"pending"}
    world.queue()
    assert {one["state"] for one in json.loads(world.say("status", "--json").out)["shards"]} == {"settling"}


def test_another_boot_of_the_host_remembers_nothing(world: World) -> None:
    world.say("status")
    world.gone(9999)
    path = Path(world.paths.absences)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot": "another"}))
    assert {one["state"] for one in json.loads(world.say("status", "--json").out)["shards"]} == {"settling"}


def test_no_queue_and_no_accounting(world: World) -> None:
    (world.slurm.folder / "squeue.error").write_text("slurm_load_jobs error: Unable to contact slurm controller\n")
    (world.slurm.folder / "sacct.error").write_text("Slurm accounting storage is disabled\n")
    said = world.say("status")
    assert said.code == 1
    assert "note: the queue cannot be read" in said.out
    assert "note: no accounting (Slurm accounting storage is disabled)" in said.out
    assert "0-2    unknown" in said.out


def test_complete(world: World) -> None:
    for shard in range(3):
        world.won(shard, {"a.jsonl": JSONL})
    said = world.say("status")
    assert said.code == 0
    assert said.out.splitlines()[-1] == f"  dd-slurm merge {world.root} --output DIR"


def test_nothing_of_the_run_changes(world: World) -> None:
    world.queue("41|41|0-2|PENDING|Resources|")
    before = digest(world.root)
    world.say("status")
    assert digest(world.root) == before


def test_watching_ends_when_nothing_changes_any_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        for shard in range(3):
            world.won(shard, {"a.jsonl": JSONL})

    monkeypatch.setattr(status_command, "pause", wait)
    world.queue("41|41|0-2|RUNNING|None|n1")
    said = world.say("status", "--watch")
    assert said.code == 0
    assert waits == [status_command.EVERY_S]
    assert said.out.count("run reviews-") == 2


def test_no_run_and_records_of_another_version(world: World, tmp_path: Path) -> None:
    said = Said("status", str(tmp_path))
    assert said.code == 65
    assert "this folder is no run" in said.err
    world.attempt(0, None)
    Path(world.paths.attempt(0, 1).attempt).write_text('{"new": true}')
    said = world.say("status")
    assert said.code == 65
    assert "another version" in said.err
