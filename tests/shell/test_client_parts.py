import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.client_spec import DesignerWork
from core.config.run_config import InputBindings, Invocation
from core.designer_config import inner
from shell.client.config_file import load
from shell.client.failure import explain
from shell.client.files import files_below, observe
from shell.client.tables import columns_of, rows_of
from tests.shell.client_world import ROOT


def test_help_needs_none_of_the_heavy_packages() -> None:
    code = (
        "import sys; from shell.client.__main__ import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'data_designer', 'pandas', 'pyarrow', 'pydantic', 'yaml', 'httpx'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.endswith("[]\n")


def test_another_program_needs_none_of_them_either() -> None:
    code = (
        "import sys; import shell.client.command\n"
        "print(sorted({'data_designer', 'pandas', 'pyarrow', 'pydantic', 'yaml', 'httpx'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": 2}\n', 2),
        ("a.jsonl", '{"a": 1}\n\n{"a": 2}', 2),
        ("a.jsonl", "", 0),
        ("a.csv", 'a,b\n1,"x\ny"\n2,z\n', 2),
        ("a.csv", "a,b\n", 0),
        ("a.csv", "", 0),
        ("a.txt", "x\n", None),
        ("a.parquet", "not parquet", None),
    ],
)
def test_rows_are_counted_where_they_can_be(tmp_path: Path, name: str, content: str, rows: int | None) -> None:
    (tmp_path / name).write_text(content)
    assert rows_of(str(tmp_path / name)) == rows


def test_a_file_that_is_gone_has_no_rows(tmp_path: Path) -> None:
    assert rows_of(str(tmp_path / "gone.csv")) is None


def test_columns_of_text_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"name, first",age\nx,1\n')
    assert [column.name for column in columns_of([str(tmp_path / "a.csv")])] == ["name, first", "age"]
    (tmp_path / "a.jsonl").write_text('\n{"n": 1, "ok": true, "x": null, "l": [1]}\n')
    types = {column.name: column.type for column in columns_of([str(tmp_path / "a.jsonl")])}
    assert types == {"n": "integer", "ok": "boolean", "x": "null", "l": "array"}


def test_only_regular_files_inside_the_folder_are_seen(tmp_path: Path) -> None:
    output, outside = tmp_path / "output", tmp_path / "outside"
    for folder in (output / "in", outside):
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text("x\n1\n")
    (output / "link.csv").symlink_to(outside / "a.csv")
    (output / "linked").symlink_to(outside)
    os.mkfifo(output / "pipe")
    paths = ["in/a.csv", "link.csv", "linked/a.csv", "pipe", "../outside/a.csv", "gone.csv", "in"]
    assert [file.path for file in observe(str(output), paths)] == ["in/a.csv"]
    assert list(files_below(str(output), "in")) == ["in/a.csv"]


def work(folder: Path, config: str, seed_path: str | None = None) -> DesignerWork:
    (folder / "builder.json").write_text(config)
    bindings = InputBindings(seed_path=seed_path)
    invocation = Invocation(num_records=1, input_bindings=bindings)
    return DesignerWork(builder=str(folder / "builder.json"), base_folder=str(folder), invocation=invocation)


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("gone.csv", "missing"),
        ("folder", "of the wrong type"),
        ("no/*.csv", "missing"),
        ("plain.txt", None),
        ("pipe.csv", "of the wrong type"),
    ],
)
def test_seed_files_are_looked_up_beside_the_authors_files(tmp_path: Path, path: str, state: str | None) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain.txt").write_text("x")
    os.mkfifo(tmp_path / "pipe.csv")
    config = f"columns: []\nseed_config: {{source: {{seed_type: local, path: '{path}'}}}}"
    _, problems = load(work(tmp_path, config))
    assert [getattr(problem, "state", None) for problem in problems] == [state]


def test_a_bound_seed_path_replaces_that_of_the_config(tmp_path: Path) -> None:
    bound = tmp_path / "other.csv"
    bound.write_text("x\n")
    config = "data_designer: {columns: [], seed_config: {source: {seed_type: local, path: gone.csv}}}"
    loaded, problems = load(work(tmp_path, config, str(bound)))
    assert problems == ()
    assert inner(loaded)["seed_config"] == {"source": {"seed_type": "local", "path": str(bound)}}
    _, problems = load(work(tmp_path, "columns: []", str(bound)))
    assert [problem.at.path for problem in problems] == ["invocation.input_bindings.seed_path"]


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    for config, line in (("columns:\n  - a: [\n", 3), ('{"columns": [\n1,,\n]}', 2)):
        _, problems = load(work(tmp_path, config))
        assert [problem.at.line for problem in problems] == [line]


class DataDesignerGenerationError(Exception):
    """Named like Data Designer's own: exceptions are told apart by name, so that both versions are understood."""


class ModelTimeoutError(Exception):
    """As above."""


def raised(message: str, cause: Exception | None = None) -> Exception:
    try:
        raise DataDesignerGenerationError(message) from cause
    except DataDesignerGenerationError as error:
        return error


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (raised("Error: Cannot resume: the current config does not match"), 65, "another config"),
        (raised("x", OSError(errno.ENOSPC, "No space left on device")), 75, "make room"),
        (raised("x", ModelTimeoutError("slow")), 75, "servers did not answer"),
        (raised("all records may have been dropped"), 65, "which column failed"),
        (KeyError("x"), 70, "bug"),
    ],
)
def test_every_failure_has_a_code_and_advice(error: Exception, code: int, hint: str) -> None:
    said = explain(error)
    assert said.exit_code == code
    assert hint in said.hint
    assert said.error == type(error).__name__


def test_causes_are_told_from_the_outside_in() -> None:
    assert explain(raised("outer", ModelTimeoutError("inner"))).causes == ("ModelTimeoutError: inner",)
