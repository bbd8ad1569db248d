"""The documentation is true: blocks run or are planned, tables match the types, links lead somewhere."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import typer
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.config.profile import ProfileCatalog
from core.config.read import choose_cluster, read_profile_catalog, read_run_file
from core.config.run_config import RunConfig
from core.outcome import Outcome, both, problems_of
from core.plan.bound import BoundPlan
from core.plan.explain import explain
from core.plan.model import RunPlan
from core.plan.run_plan import plan_run
from core.problem import Problem
from core.report import as_text
from core.supervise.rules import exit_code
from core.supervise.verdict import ClientFailed, ClientRefused, Completed, OutOfTime, ServersFailed, Stuck, Verdict
from core.units import Alias, StepName
from shell.cli import app
from tests import docs_tables as tables
from tests.conftest import Golden
from tests.nodes import node

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)]+)\)")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
BASE = {
    "schema_version": "schema_version: 1",
    "name": "name: example",
    "builder": "builder: {source: config.yaml}",
    "invocation": "invocation: {num_records: 100}",
}
EIGHT_GPUS = (
    b"schema_version: 1\nclusters: {c: {workspace_root: /w, gpus_per_node: 8, container: none, "
    b"scheduler: {partition: gpu}}}\n"
)


def blocks(language: str) -> list[tuple[str, str]]:
    """Every block of a language, with the name of its page."""
    return [(page.name, body) for page in PAGES for kind, body in FENCE.findall(page.read_text()) if kind == language]


@pytest.mark.parametrize(("page", "body"), blocks("yaml"))
def test_every_yaml_block_is_accepted(page: str, body: str) -> None:
    if "\nclusters:" in body:
        assert problems_of(read_profile_catalog(page, body.encode())) == ()
        return
    given = {line.partition(":")[0] for line in body.splitlines()}
    command = "command:" in body
    base = [
        text for key, text in BASE.items() if key not in given and not (command and key in ("builder", "invocation"))
    ]
    run = read_run_file("run.yaml", "\n".join([*base, body]).encode())
    catalog = read_profile_catalog("profiles.yaml", EIGHT_GPUS)
    site = catalog.bind(lambda found: choose_cluster(found, None, "login1"))
    planned = both(run, site).bind(lambda pair: plan_run(pair[0], *pair[1]))
    assert [as_text(problem) for problem in problems_of(planned)] == []


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every line of a block of commands, without its comment."""
    for page, body in [*blocks("shell"), *blocks("")]:
        for line in body.splitlines():
            words = line.partition("  #")[0].split()
            if words and words[0] in ("make", "pip", "dd-slurm") and not line.startswith(" "):
                yield page, words


@pytest.mark.parametrize(("page", "words"), list(commands()))
def test_every_command_exists(page: str, words: list[str]) -> None:
    match words:
        case ["make", target]:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text()
        case ["pip", *_, extras]:
            project = (ROOT / "pyproject.toml").read_text()
            assert all(f"\n{extra} = [" in project for extra in extras.strip("'.[]").split(","))
        case ["dd-slurm", name, *rest]:
            group = typer.main.get_command(app)
            with group.make_context("dd-slurm", [name, *rest], resilient_parsing=True) as context:
                command = group.get_command(context, name)  # type: ignore[attr-defined]
                assert command is not None
                command.make_context(name, rest, parent=context)
            assert all((ROOT / word).exists() for word in rest if word.startswith("examples/"))
        case _:
            pytest.fail(f"{page}: {' '.join(words)} is not looked at")


PLANNING = [(page, body) for page, body in blocks("python") if page != "api.md"]
"""What is on the page of the library needs a Slurm: `tests/shell/test_api.py` runs it."""


@pytest.mark.parametrize(("page", "body"), PLANNING)
def test_every_python_block_runs(page: str, body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in (("run.yaml", "one_model/run.yaml"), ("profiles.yaml", "profiles.yaml")):
        (tmp_path / name).write_bytes((ROOT / "examples" / source).read_bytes())
    (tmp_path / "nodes.json").write_bytes(msgspec.json.encode([node("n01", gpus=2)]))
    monkeypatch.chdir(tmp_path)
    exec(compile(ast.parse(body), page, "exec"), {})
    plan, bound = (tmp_path / "plan.json").read_bytes(), (tmp_path / "bound.json").read_bytes()
    assert canonical_json(msgspec.json.decode(plan, type=RunPlan)) == plan
    assert canonical_json(msgspec.json.decode(bound, type=BoundPlan)) == bound


def test_every_field_has_its_type_default_and_meaning(golden: Golden) -> None:
    page = ROOT / "docs" / "run-file.md"
    text = page.read_text()
    head, title, rest = text.partition("## Fields of the profile catalog")
    run = _with_table(head.rpartition("## Fields of the run file")[2], RunConfig)
    head = "".join([*head.rpartition("## Fields of the run file")[:2], run])
    text = head + title + _with_table(rest, ProfileCatalog)
    golden(page, text)
    assert tables.named_types() in text


def _with_table(part: str, struct: type[msgspec.Struct]) -> str:
    meanings = tables.meanings_in(part)
    assert [field for field, _, _ in tables.rows(struct) if not meanings.get(field)] == [], "write their meaning"
    made = tables.table(struct, meanings) + "\n"
    return TABLE.sub(lambda _: made, part)


def test_every_kind_of_problem_is_described(golden: Golden) -> None:
    assert [type(example) for example in tables.EXAMPLES] == list(get_args(Problem)), "one example of each, in order"
    page = ROOT / "docs" / "problems.md"
    head, _, _ = page.read_text().partition("### ")
    golden(page, head + tables.problem_pages() + "\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    inside = [link for link in LINK.findall(FENCE.sub("", page.read_text())) if "://" not in link]
    assert [link for link in inside if not (page.parent / link.partition("#")[0]).exists()] == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - linked == set()


def readme_plan(tensor_parallel: int) -> tuple[str, Outcome[RunPlan]]:
    """The README, and the plan of its run file with another size of tensor groups."""
    readme = (ROOT / "README.md").read_text()
    body = next(body for kind, body in FENCE.findall(readme) if kind == "yaml")
    assert "tensor_parallel: 4" in body
    content = body.replace("tensor_parallel: 4", f"tensor_parallel: {tensor_parallel}").encode()
    site = read_profile_catalog("p", EIGHT_GPUS).bind(lambda found: choose_cluster(found, None, "login1"))
    return readme, both(read_run_file("run.yaml", content), site).bind(lambda pair: plan_run(pair[0], *pair[1]))


def test_the_mistake_in_the_readme_is_reported_so() -> None:
    readme, planned = readme_plan(6)
    assert not is_successful(planned)
    assert "\n".join(map(as_text, planned.failure())) in readme


def test_the_plan_in_the_readme_is_explained_so() -> None:
    readme, planned = readme_plan(4)
    shown = next(body for _, body in FENCE.findall(readme) if body.startswith("models\n"))
    assert shown in explain(planned.unwrap()) + "\n"


def test_every_verdict_is_described_with_its_exit_code() -> None:
    page = (ROOT / "docs" / "failures.md").read_text()
    described = re.findall(r"^\| `([a-z-]+)` \|", page.partition("## Verdicts")[2], re.MULTILINE)
    kinds = [str(kind.__struct_config__.tag) for kind in get_args(Verdict)]
    assert described == [*kinds, "refused"], "`refused` is the attempt that no supervisor saw"
    codes = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    lost = ServersFailed(alias=Alias("w"), step=StepName("w-0"), launch=1, cause=Stuck())
    verdicts = (Completed(), lost, OutOfTime(), ClientRefused(reasons=()), ClientFailed(code=1, reasons=()))
    assert {str(exit_code(verdict)) for verdict in verdicts} <= codes
