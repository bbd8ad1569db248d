"""The command line of the node worker, and that it needs nothing that a serving container does not have."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from core.plan.facts import FactsRequest
from shell import node
from tests.shell.node_world import REPOSITORY, plan_of

SERVE = ["serve", "--step", "writer-0", "--launch", "1", "--tasks-dir", "tasks", "--log-dir", "logs"]


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["serve", "--help"], ["facts", "--help"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(words) == 0
    assert "usage: python -m shell.node facts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dance"], "unknown command 'dance'"),
        (["facts"], "missing: --request"),
        (["facts", "--request"], "--request needs a value"),
        (["facts", "request.json"], "unexpected 'request.json'"),
        (["facts", "--request=x", "--devices=many"], "--devices needs a number, not 'many'"),
        (["serve", "--plan=p"], "missing: --step, --launch, --tasks-dir, --log-dir"),
        ([*SERVE, "--plan=p", "--launch=-1"], "--launch needs a number, not '-1'"),
        ([*SERVE, "--plan=p", "--rank=0"], "unknown option --rank"),
    ],
)
def test_wrong_words(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(words) == os.EX_USAGE
    assert said in capsys.readouterr().err


def test_no_words_are_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main([]) == os.EX_USAGE
    assert "usage:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, os.EX_UNAVAILABLE, "cannot be read: No such file or directory"),
        (b"", os.EX_DATAERR, "is not a bound plan: Input data was truncated"),
        (b'{"schema_version": 1', os.EX_DATAERR, "is not a bound plan"),
        (b'{"schema_version": "one"}', os.EX_DATAERR, "is not a bound plan: Expected `int`, got `str`"),
        (b"\xff\xfe", os.EX_DATAERR, "is not a bound plan"),
    ],
)
def test_a_plan_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, code: int, said: str
) -> None:
    path = tmp_path / "bound.json"
    if content is not None:
        path.write_bytes(content)
    assert node.main([*SERVE, "--plan", str(path)]) == code
    assert f"{path} {said}" in capsys.readouterr().err


def test_a_plan_that_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main([*SERVE, "--plan", str(tmp_path)]) == os.EX_UNAVAILABLE
    assert "cannot be read: Is a directory" in capsys.readouterr().err


def test_a_tasks_folder_that_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bound.json").write_bytes(msgspec.json.encode(plan_of(["c1"], [0])))
    (tmp_path / "tasks").touch()
    monkeypatch.setenv("SLURMD_NODENAME", "c1")
    words = ["--plan", str(tmp_path / "bound.json"), "--tasks-dir", str(tmp_path / "tasks" / "below")]
    assert node.main([*SERVE, *words]) == os.EX_UNAVAILABLE
    assert "tasks/below: Not a directory" in capsys.readouterr().err


def run_python(*words: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run([sys.executable, *words], env=environ, capture_output=True, text=True, check=True).stdout


def test_help_imports_almost_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import shell.node; code = shell.node.main(['--help']);"
        "print(*sorted(set(sys.modules) - before), sep='\\n', file=sys.stderr); sys.exit(code)"
    )
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) <= {"shell", "shell.node"}


def test_needs_only_the_standard_library_and_msgspec() -> None:
    code = (
        "import sys, shell.worker.serve, shell.facts.node, shell.worker.guard;"
        "print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )
    allowed = {"core", "shell", "msgspec", "typing_extensions", "__main__", "sitecustomize", "usercustomize"}
    found = {name for name in run_python("-c", code).split() if not name.startswith(("_", "a1_"))}
    assert found <= allowed


def test_facts_from_the_command_line(tmp_path: Path) -> None:
    request = FactsRequest(paths=(), executables=(), ask_vllm_version=False, output_dir=str(tmp_path / "facts"))
    (tmp_path / "request.json").write_bytes(msgspec.json.encode(request))
    run_python("-m", "shell.node", "facts", f"--request={tmp_path}/request.json", "--address=127.0.1.9", "--devices=2")
    (written,) = (tmp_path / "facts").iterdir()
    assert b'"127.0.1.9"' in written.read_bytes()
