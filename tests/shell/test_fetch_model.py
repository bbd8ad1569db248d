"""Fetching a model: what is downloaded, with which interpreter, and how failures are told."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from core.fetch_answer import FetchAnswer, Fetched, FetchFailed
from core.problem import At, HubModelMissing
from core.report import as_text
from shell.fetch_model import cause_of, unneeded
from shell.worker.download import interpreter_of
from tests.shell.node_world import REPOSITORY

STAND_IN = Path(__file__).with_name("stand_in_hub")


class Fetching:
    """One call of the program, with the stand-in for the hub's tool."""

    def __init__(self, folder: Path, revision: str = "-", path: str = str(STAND_IN), **environ: str) -> None:
        self.log, answer = folder / "log", folder / "answer.json"
        words = [sys.executable, "-m", "shell.fetch_model", "lab/m", revision, str(answer)]
        settings = {"PYTHONPATH": f"{path}:{REPOSITORY}", "HF_HOME": str(folder), "STAND_IN_HUB_LOG": str(self.log)}
        done = subprocess.run(words, env={**os.environ, **settings, **environ}, capture_output=True, text=True)
        self.code, self.said = done.returncode, done.stdout + done.stderr
        self.answer: FetchAnswer | None = None
        if answer.exists():
            self.answer = msgspec.json.decode(answer.read_bytes(), type=FetchAnswer)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def test_a_model_is_fetched(tmp_path: Path) -> None:
    done = Fetching(tmp_path, "v2")
    assert done.code == 0, done.said
    assert isinstance(done.answer, Fetched)
    assert done.answer.path.startswith(str(tmp_path))
    (call,) = done.calls
    assert call.startswith("lab/m v2 ")
    assert "'*.bin'" in call
    assert "safetensors" not in call


def test_code_of_another_repository_is_fetched_too(tmp_path: Path) -> None:
    config = '{"auto_map": {"AutoConfig": "other/code--config.C", "AutoTokenizer": ["other/code--t.T", null]}}'
    done = Fetching(tmp_path, STAND_IN_HUB_CONFIG=config)
    assert [call.split()[0] for call in done.calls] == ["lab/m", "other/code"]
    assert "*.py" in done.calls[1]


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        ("RepositoryNotFoundError", "unknown"),
        ("GatedRepoError", "gated"),
        ("RevisionNotFoundError", "no-revision"),
        ("LocalEntryNotFoundError", "unreachable"),
        (str(errno.ENOSPC), "no-space"),
        (str(errno.EROFS), "not-writable"),
    ],
)
def test_failures_have_a_cause(tmp_path: Path, failure: str, cause: str) -> None:
    done = Fetching(tmp_path, STAND_IN_HUB_FAILS=failure)
    assert done.code == os.EX_UNAVAILABLE
    assert isinstance(done.answer, FetchFailed)
    assert done.answer.cause == cause
    assert "\n" not in done.answer.detail
    assert "Traceback" not in done.said
    assert done.calls == []


def test_what_led_to_an_exception_counts() -> None:
    error = RuntimeError("the download broke")
    assert cause_of(error) == "failed"
    error.__cause__ = OSError(errno.ENOSPC, "full")
    assert cause_of(error) == "no-space"
    error.__cause__ = ConnectionError()
    assert cause_of(error) == "unreachable"


def test_an_interpreter_without_the_tool_says_so(tmp_path: Path) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ModuleNotFoundError('No module named huggingface_hub')")
    done = Fetching(tmp_path, path=str(tmp_path))
    assert isinstance(done.answer, FetchFailed)
    assert done.answer.cause == "no-tool"
    assert sys.executable in done.answer.detail


def test_other_forms_of_weights_are_left_out_where_there_are_safetensors() -> None:
    assert "*.bin" in unneeded(["model.safetensors", "pytorch_model.bin"])
    assert unneeded(["pytorch_model.bin", "adapter/a.safetensors"]) == ["original/*"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#!/opt/venv/bin/python3.12 -I\nimport vllm\n", "/opt/venv/bin/python3.12"),
        ("#!/usr/bin/env python3\n", "python3"),
        ('#!/bin/sh\n\'\'\'exec\' "/long path/bin/python" "$0" "$@"\n', "/long path/bin/python"),
        ("#!/bin/sh\n'''exec' /long/bin/python3 \"$0\" \"$@\"\n", "/long/bin/python3"),
        ("#!/bin/bash\nexec podman run vllm\n", sys.executable),
        ("\x7fELF", sys.executable),
        ("", sys.executable),
    ],
)
def test_the_interpreter_of_vllm_is_taken(tmp_path: Path, script: str, expected: str) -> None:
    program = tmp_path / "vllm"
    program.write_text(script)
    program.chmod(0o755)
    assert interpreter_of("vllm", {"PATH": str(tmp_path)}) == expected
    assert interpreter_of(str(program), {}) == expected


def test_without_a_program_our_own_interpreter_is_taken() -> None:
    assert interpreter_of("no-such-vllm", {"PATH": "/nowhere"}) == sys.executable
    assert interpreter_of(sys.executable, {}) == sys.executable


@pytest.mark.parametrize(("cause", "hint"), [("gated", "ask for access"), ("unreachable", "hf download")])
def test_the_words_have_the_cause_and_what_to_do(cause: str, hint: str) -> None:
    fact = {"at": At(source="node n0"), "model": "lab/m", "cause": cause, "detail": "the tool's words"}
    said = as_text(msgspec.convert(fact, HubModelMissing))
    assert "'lab/m' cannot be fetched" in said
    assert "the tool's words" in said
    assert hint in said
