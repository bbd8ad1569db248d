"""Several attempts at one shard, and what may be seen of a run."""

import json
from pathlib import Path

import pytest

from tests.local.conftest import MakeRun
from tests.local.local_run import until

pytestmark = pytest.mark.slow


def test_two_controllers_at_once_make_two_attempts_and_one_winner(make_run: MakeRun) -> None:
    run = make_run()
    both = [run.start(), run.start()]
    until(lambda: all((run.attempt(number) / "endpoints.json").exists() for number in (1, 2)), "both to work")
    run.open_gate()
    assert [controller.code() for controller in both] == [0, 0], [c.log.read_text() for c in both]
    assert not run.processes()
    run.check_files()
    winner = run.winner()["attempt"]
    loser = 3 - winner
    assert [run.record(number)["state"] for number in (1, 2)] == ["COMPLETED", "COMPLETED"]
    assert "another attempt has won this shard already" in run.story(loser)
    assert "another attempt has won" not in run.story(winner)
    assert (run.attempt(loser) / "result.json").exists()
    assert sorted(run.rows()) == [0, 1, 2, 3]


def test_tokens_are_in_their_files_only(make_run: MakeRun) -> None:
    run = make_run()
    controller = run.start()
    until(lambda: run.works, "the program to work")
    tokens = [(run.attempt(1) / f"{name}.token").read_text() for name in ("server", "client")]
    commands = run.processes()
    run.open_gate()
    assert controller.code() == 0, controller.log.read_text()
    assert len(commands) > 8
    assert [command for command in commands if any(token in command for token in tokens)] == []
    kept = [path for path in Path(run.paths.root).rglob("*") if path.is_file() and path.suffix != ".token"]
    secrets = [token.encode() for token in tokens]
    assert [path for path in (*kept, controller.log) if any(word in path.read_bytes() for word in secrets)] == []
    assert tokens[0] != tokens[1]
    assert min(map(len, tokens)) >= 32


def test_a_folder_that_is_no_run_and_a_shard_that_is_not_there(make_run: MakeRun) -> None:
    run = make_run()
    plan = Path(run.paths.plan)
    whole = plan.read_text()
    plan.write_text(whole[: len(whole) // 2])
    controller = run.start()
    assert controller.code() == 78
    assert "not the folder of a run" in controller.log.read_text()
    assert "Traceback" not in controller.log.read_text()
    assert not Path(run.paths.attempts(0)).exists()
    plan.write_text(whole)
    run.open_gate()
    assert run.start().code() == 0
    assert json.loads((run.attempt(1) / "attempt.json").read_text())["number"] == 1
