"""The real Data Designer takes what the stand-in answers, for every kind of column that asks a model."""

import ast
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.shell.simulated import ROOT, simulated

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("data_designer") is None, reason="Data Designer is not installed"),
]
RECORDS = 12


def test_every_kind_of_column(tmp_path: Path) -> None:
    environ = {**os.environ, "DATA_DESIGNER_HOME": str(tmp_path / "home"), "SIMULATED_KEY": "secret"}
    with simulated(tmp_path, "--served-model-name", "served", "--api-key=secret") as server:
        command = [
            sys.executable,
            "-m",
            "tests.shell.designer_columns",
            f"{server.url}/v1",
            str(RECORDS),
            str(tmp_path),
        ]
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        answered = server.figures()["vllm:request_prompt_tokens_count"]
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert len(rows) == RECORDS
    assert answered >= 6 * RECORDS  # five columns and an answer after each call of the tool
    for row in rows:
        assert row["text"].endswith(".")
        assert row["person"]["pets"][0]["kind"] in ("cat", "dog")
        assert str(row["verdict"]["Clarity"]["score"]) in ("1", "2", "3")
        assert row["verdict"]["Tone"]["score"] in ("friendly", "cold")
        assert isinstance(ast.parse(row["script"]).body[0], ast.FunctionDef)
        assert row["query"].startswith("SELECT")
        assert row["checked"]["is_valid"]
        assert row["checked_query"]["is_valid"]
        assert len(row["vector"]["embeddings"][0]) == 64
