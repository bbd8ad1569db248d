"""The rules of the architecture, over every module; and that each rule sees a planted violation."""

import ast
import sys
from pathlib import Path

import pytest

from tests import architecture_rules as rules

ROOT = Path(__file__).parents[1]
LONGEST_MODULE = 300
LONGER_FOR_A_REASON: dict[str, str] = {
    "core.problem": "one struct per kind of mistake; a closed list is read as one",
}
YAML_READER = "core.config.raw"
INSIDE_THE_CONTAINER = {
    "shell.node",
    "core.units",
    "core.codec",
    "core.plan.facts",
    "core.plan.bound",
    "core.plan.steps",
    "core.plan.process_env",
    "core.vllm.serve_args",
    "shell.simulate.__main__",
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PATHS = {name_of(path): path for folder in ("core", "shell") for path in sorted((ROOT / folder).rglob("*.py"))}
TREES: dict[str, ast.AST] = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}
CORE = [name for name in TREES if name == "core" or name.startswith("core.")]
STRUCTS = rules.struct_names(TREES)
CONTAINED = sorted(rules.closure(INSIDE_THE_CONTAINER, TREES))


@pytest.mark.parametrize("module", CORE)
def test_core_is_pure(module: str) -> None:
    tree = TREES[module]
    also = frozenset({"yaml"}) if module == YAML_READER else frozenset()
    assert [*rules.impure_imports(tree, also), *rules.impure_calls(tree)] == []


@pytest.mark.parametrize("module", CORE)
def test_core_drops_no_result(module: str) -> None:
    assert list(rules.bare_calls(TREES[module])) == []


@pytest.mark.parametrize("module", TREES)
def test_results_are_asked_not_matched(module: str) -> None:
    assert list(rules.opened_results(TREES[module])) == []


@pytest.mark.parametrize("module", TREES)
def test_structs_never_change(module: str) -> None:
    loose, mutable = rules.loose_structs(TREES[module], STRUCTS), rules.mutable_fields(TREES[module], STRUCTS)
    assert [*loose, *mutable] == []


@pytest.mark.parametrize("module", CONTAINED)
def test_inside_the_container_there_is_only_the_standard_library_and_msgspec(module: str) -> None:
    tops = {name.partition(".")[0] for name, _ in rules.imports(TREES[module])}
    assert tops - sys.stdlib_module_names - {"core", "shell", "msgspec"} == set()


@pytest.mark.parametrize("module", CONTAINED)
def test_inside_the_container_python_3_10_suffices(module: str) -> None:
    source = PATHS[module].read_text()
    assert list(rules.newer_than_3_10(ast.parse(source, feature_version=(3, 10)))) == []


def test_modules_are_short() -> None:
    long = {name for name, path in PATHS.items() if len(path.read_text().splitlines()) > LONGEST_MODULE}
    assert long == set(LONGER_FOR_A_REASON)


def test_make_check_asks_the_import_linter() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    assert "\t$(BIN)/lint-imports\n" in recipe


# --- each rule sees what it is for ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import io, re",
        "from pathlib import Path",
        "from shell.store import write",
        "import shell",
        "from . import problem",
        "from returns.maybe import Maybe",
        "from returns.result import ResultE",
        "import yaml",
        "from signal import signal",
        "def f():\n    import random",
        "if TYPE_CHECKING:\n    import socket",
    ],
)
def test_an_impure_import_is_seen(source: str) -> None:
    assert list(rules.impure_imports(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "x = open('f')",
        "print(1)",
        "at = datetime.now()",
        "day = date.today()",
        "clock = datetime.utcnow",
        "here = posixpath.realpath('.')",
        "text = path.read_text()",
        "def f():\n    global x",
    ],
)
def test_an_impure_call_is_seen(source: str) -> None:
    assert list(rules.impure_calls(ast.parse(source)))


@pytest.mark.parametrize("source", ["check(x)", "plan.check(x)", "def f():\n    bind(x)", "append(x)"])
def test_a_dropped_result_is_seen(source: str) -> None:
    assert list(rules.bare_calls(ast.parse(source)))


def test_a_local_change_is_allowed() -> None:
    source = "def fill(found) -> None:\n    found.append(x)\nfill(found)\nassert_never(y)"
    assert not list(rules.bare_calls(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "match x:\n    case Success(v):\n        pass",
        "match x:\n    case result.Failure():\n        pass",
        "isinstance(x, Success)",
        "isinstance(x, (int, Failure))",
        "isinstance(x, Result)",
    ],
)
def test_an_opened_result_is_seen(source: str) -> None:
    assert list(rules.opened_results(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "class A(msgspec.Struct): x: int",
        "class A(msgspec.Struct, frozen=True): x: int",
        "class A(Struct, frozen=True, kw_only=False): x: int",
        "class B(Struct, frozen=True, kw_only=True): x: int\nclass A(B): y: int",
    ],
)
def test_a_loose_struct_is_seen(source: str) -> None:
    tree = ast.parse(source)
    assert list(rules.loose_structs(tree, rules.struct_names({"a": tree}))) == ["A"]


@pytest.mark.parametrize(
    "kind", ["list[int]", "tuple[dict[str, int], ...]", "set[str] | None", "collections.deque[int]"]
)
def test_a_mutable_field_is_seen(kind: str) -> None:
    tree = ast.parse(f"class A(msgspec.Struct, frozen=True, kw_only=True):\n    x: {kind}")
    assert list(rules.mutable_fields(tree, rules.struct_names({"a": tree}))) == ["A.x"]


@pytest.mark.parametrize(
    "source",
    [
        "import tomllib",
        "from typing import assert_never",
        "from enum import StrEnum",
        "import asyncio\nasync def f():\n    async with asyncio.timeout(1): pass",
        "raise ExceptionGroup('x', [])",
    ],
)
def test_a_newer_library_is_seen(source: str) -> None:
    assert list(rules.newer_than_3_10(ast.parse(source)))


@pytest.mark.parametrize("source", ["try: pass\nexcept* OSError: pass", "type A = int", "def f[T](x: T): pass"])
def test_newer_syntax_is_seen(source: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(source, feature_version=(3, 10))


def test_what_is_imported_by_way_of_another_module_is_seen() -> None:
    trees: dict[str, ast.AST] = {
        "shell": ast.parse(""),
        "shell.node": ast.parse("from core import units"),
        "core": ast.parse(""),
        "core.units": ast.parse("def f():\n    import core.outcome"),
        "core.outcome": ast.parse("from returns.result import Result"),
        "core.other": ast.parse("import yaml"),
    }
    assert rules.closure({"shell.node"}, trees) == {"shell.node", "core", "core.units", "core.outcome"}
