"""The same path with the real Data Designer: a rank that dies in the middle, and a config that it refuses."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.local.conftest import MakeRun
from tests.local.local_run import until

pytestmark = pytest.mark.slow


def _builder(**column: Any) -> dict[str, Any]:
    words = {
        "name": "topic",
        "column_type": "sampler",
        "sampler_type": "category",
        "params": {"values": ["sea", "sky"]},
    }
    config = {"data_designer": {"columns": [words, {"name": "text", "model_alias": "m"} | column]}}
    return {"client": None, "builder": {"inline": config}}


def test_a_rank_dies_while_records_are_made(make_run: MakeRun) -> None:
    run = make_run(
        **_builder(column_type="llm-text", prompt="Write about {{ topic }}."), invocation={"num_records": 12}
    )
    controller = run.start({"ttft_ms": 400})
    controller.says("the client works")
    os.kill(controller.victim("server rank"), signal.SIGKILL)
    assert controller.code() == 0, controller.log.read_text()
    result = json.loads((run.attempt(1) / "result.json").read_text())
    assert result["records"] == 12
    assert {"topic", "text"} <= {column["name"] for column in result["columns"]}
    assert "it starts again in 1.0 s" in run.story(1)
    assert not run.processes()
    run.check_files()


def test_the_next_attempt_goes_on_where_the_time_ran_out(make_run: MakeRun) -> None:
    """With ``resume: never``, the default: ``on_time_limit`` alone says that the work goes on."""
    invocation = {"num_records": 12, "run_config": {"buffer_size": 2}}
    run = make_run(
        **_builder(column_type="llm-text", prompt="Write about {{ topic }}."),
        invocation=invocation,
        on_time_limit={"resume": "auto"},
    )
    controller = run.start({"ttft_ms": 300})
    until(lambda: _done(run.attempt(1)) >= 2, "the first batch")
    controller.send(signal.SIGUSR1)
    assert controller.code() == 75, controller.log.read_text()
    made = _done(run.attempt(1))
    assert 2 <= made < 12
    assert run.start().code() == 0
    assert "goes on with what attempt 1 has made" in run.story(2)
    assert not (run.attempt(1) / "output").exists()
    result = json.loads((run.attempt(2) / "result.json").read_text())
    assert result["records"] == 12
    assert sum(file["rows"] or 0 for file in result["files"]) == 12
    assert result["resumed"] == "always"
    assert not [file for file in result["files"] if ".tmp" in file["path"]]
    run.check_files()


def _done(attempt: Path) -> int:
    path = attempt / "progress.json"
    return int(json.loads(path.read_text())["records_done"]) if path.exists() else 0


def test_a_config_that_data_designer_refuses(make_run: MakeRun) -> None:
    run = make_run(**_builder(column_type="llm-text", prompt="Write about {{ nothing_known }}."))
    controller = run.start({"startup_s": 60})
    assert controller.code() == 78, controller.log.read_text()
    assert "the client refused its work: builder.json: columns.text: Data Designer refuses" in run.story(1)
    assert "references a column that does not exist: 'nothing_known'" in run.story(1)
    assert not Path(run.paths.winner(0)).exists()
    assert not run.processes()
