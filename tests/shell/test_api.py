"""The functions for other programs: the same answers as the commands, as values, and never a word printed."""

import json
import re
import time
from pathlib import Path

import pytest
from returns.pipeline import is_successful

from core.outcome import problems_of
from core.report import report
from shell import api
from shell.operate import cancel
from tests.shell.operate_world import World
from tests.shell.operate_world import world as world
from tests.shell.test_submit_command import IMPATIENT

JSONL = '{"a":1}\n{"a":2}\n{"a":3}\n{"a":4}\n'
ROW = "4{}|41_{}|{}|1:0|0:0|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:02|n1"


def test_a_run_from_its_file_to_its_dataset(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "LOOK_EVERY_S", 0.01)
    site = world.site
    capsys.readouterr()
    planned = api.plan(str(site.run_file), str(site.profiles)).unwrap()
    assert planned.request.array_count == 3
    submitted = api.submit(str(site.run_file), str(site.profiles), patience=IMPATIENT).unwrap()
    assert (submitted.state, submitted.job_id) == ("submitted", "42")
    assert api.take_up(submitted.run_dir, IMPATIENT).unwrap().job_id == "42"
    run = str(world.root)
    world.won(0, {"a.jsonl": JSONL})
    world.won(1, {"a.jsonl": JSONL})
    world.accounting(ROW.format(4, 2, "NODE_FAIL"))
    seen = api.observe(run).unwrap()
    assert [one.state for one in seen.shards] == ["completed", "completed", "node-fail"]
    assert api.retry(run, dry_run=True).unwrap().shards == (2,)
    retried = api.retry(run, [2], patience=IMPATIENT).unwrap()
    assert (retried.state, retried.excluded) == ("submitted", ("n1",))
    assert api.cancel(run).unwrap().state == "nothing"
    world.won(2, {"a.jsonl": JSONL})
    manifest = api.merge(run, str(tmp_path / "merged")).unwrap()
    assert manifest.records == 12
    assert capsys.readouterr() == ("", "")


def test_the_examples_of_the_page_run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every shard wins while the second example sleeps."""
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    first, second = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    folder = world.site.run_file.parent
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DD_SLURM_PROFILE_FILE", str(world.site.profiles))
    exec(compile(first, "api.md", "exec"), {})
    assert capsys.readouterr().out.startswith("submitted 42 ")

    pause = time.sleep

    def sleep(seconds: float) -> None:
        if seconds < 1:  # waiting for a process, not the example's own
            pause(seconds)
            return
        (world.root,) = [run for run in world.site.runs() if (run / "absences.json").exists()]
        for shard in range(3):
            world.won(shard, {"a.jsonl": JSONL})

    monkeypatch.setattr(time, "sleep", sleep)
    exec(compile(second, "api.md", "exec"), {})
    assert capsys.readouterr().out == "12\n"
    assert (folder / "dataset").is_dir()


def test_problems_are_values(world: World, tmp_path: Path) -> None:
    outcomes = [
        api.plan(str(tmp_path / "none.yaml")),
        api.submit(str(tmp_path / "none.yaml")),
        api.observe(str(tmp_path)),
        api.retry(str(tmp_path)),
        api.cancel(str(tmp_path)),
        api.merge(str(tmp_path), "out"),
    ]
    assert [[report(one).code for one in problems_of(outcome)] for outcome in outcomes] == [["unreadable"]] * 6
    Path(world.paths.winner(0)).parent.mkdir(parents=True)
    Path(world.paths.winner(0)).write_text(json.dumps({"new": 1}))
    assert [report(one).code for one in problems_of(api.observe(str(world.root)))] == ["unreadable"]
    assert not is_successful(api.merge(str(world.root), str(tmp_path / "m")))
