"""What ``dd-slurm plan`` has against a Data Designer config, and that the client has the same against it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from core.client_spec import DesignerWork
from core.config.run_config import InputBindings, Invocation
from shell.cli import app
from shell.client.config_file import load

RUN = """schema_version: 1
name: run
builder:
  {builder}
invocation: {{num_records: 10{bound}}}
deployments:
  - {{model_alias: writer, model: lab/writer}}
  - {{model_alias: judge, model: lab/judge}}
"""
CONFIG = """columns:
  - {name: topic, column_type: sampler, sampler_type: category, params: {values: [a]}}
  - {name: text, column_type: llm-text, model_alias: writer, prompt: x}
  - {name: score, column_type: llm-judge, model_alias: judge, prompt: x, scores: []}
profilers:
  - {model_alias: judge}
"""


@pytest.fixture(autouse=True)
def no_profile_of_the_tester(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DD_SLURM_PROFILE_FILE", raising=False)
    monkeypatch.delenv("DATA_DESIGNER_SLURM_PROFILE_FILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def problems(folder: Path, config: str, *, bound: str = "", name: str = "config.yaml") -> list[dict[str, Any]]:
    """Of a config in a file of its own; `bound` is the path of other seed data."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(config)
    binding = f", input_bindings: {{seed_path: {bound}}}" if bound else ""
    return said(folder, RUN.format(builder=f"source: {name}", bound=binding))


def said(folder: Path, run: str) -> list[dict[str, Any]]:
    (folder / "run.yaml").write_text(run)
    result = CliRunner().invoke(app, ["plan", str(folder / "run.yaml"), "--json"])
    answer = json.loads(result.stdout)
    assert result.exit_code == (65 if "problems" in answer else 0)
    return list(answer.get("problems", []))


def places(found: list[dict[str, Any]]) -> list[tuple[str, str, int | None]]:
    return [(problem["code"], problem["path"], problem["line"]) for problem in found]


def test_a_good_config_is_planned(tmp_path: Path) -> None:
    assert problems(tmp_path, CONFIG) == []


def test_a_wrong_alias_is_found_where_it_is_used(tmp_path: Path) -> None:
    found = problems(tmp_path, CONFIG.replace("alias: writer", "alias: writr"), name="below/config.yaml")
    assert places(found) == [("unknown-name", "columns[1].model_alias", 3)]
    assert (found[0]["source"], found[0]["message"]) == ("config.yaml", "no deployment is called 'writr'")
    assert found[0]["hint"] == "did you mean 'writer'?"


def test_every_column_and_profiler_is_looked_at_in_the_longer_form_too(tmp_path: Path) -> None:
    longer = "data_designer:\n" + "".join(f"  {line}\n" for line in CONFIG.splitlines())
    found = problems(tmp_path, longer.replace("alias: judge", "alias: x"))
    assert places(found) == [
        ("unknown-name", "data_designer.columns[2].model_alias", 5),
        ("unknown-name", "data_designer.profilers[0].model_alias", 7),
    ]
    assert found[0]["hint"] == "known: writer, judge"


def test_a_config_inside_the_run_file_has_the_lines_of_the_run_file(tmp_path: Path) -> None:
    inline = "inline:\n" + "".join(f"    {line}\n" for line in CONFIG.replace("alias: writer", "alias: z").splitlines())
    assert places(said(tmp_path, RUN.format(builder=inline, bound=""))) == [
        ("unknown-name", "builder.inline.columns[1].model_alias", 7)
    ]


PLUGIN = "columns:\n- column_type: {kind}\n  checks:\n  - {{rule: {{model_alias: x}}}}\n  {rest}\n"


@pytest.mark.parametrize(
    ("kind", "rest", "found"),
    [
        ("our-plugin", "", ["columns[0].checks[0].rule.model_alias"]),
        ("our-plugin", "model_alias: [x]", ["columns[0].checks[0].rule.model_alias"]),
        ("llm-structured", "model_alias: writer", []),  # there it is data, for example of a schema
    ],
)
def test_aliases_deep_inside_a_column_of_a_plugin(tmp_path: Path, kind: str, rest: str, found: list[str]) -> None:
    assert [p["path"] for p in problems(tmp_path, PLUGIN.format(kind=kind, rest=rest))] == found


def test_yaml_that_only_data_designer_allows_is_judged_too(tmp_path: Path) -> None:
    text = "columns:\n- &c {name: a, model_alias: writer}\n- {<<: *c, name: b, model_alias: nobody}\n"
    assert places(problems(tmp_path, text)) == [("unknown-name", "columns[1].model_alias", 3)]
    round_and_round = "columns:\n- &c {column_type: plugin, part: [*c], model_alias: writer}\n"
    assert problems(tmp_path, round_and_round) == []


def test_models_that_the_config_declares_are_those_of_the_run_file(tmp_path: Path) -> None:
    models = "model_configs:\n  - {alias: writer}\n  - {alias: judje}\n"
    found = problems(tmp_path, CONFIG + models)
    assert places(found) == [("unknown-name", "deployments[1].model_alias", 8)]
    assert found[0]["message"] == "no model of the config is called 'judge'"
    assert found[0]["hint"] == "did you mean 'judje'?"


@pytest.mark.parametrize("models", ["[]", "3", "[{alias: 7}, {alias: writer}]", "[x]"])
def test_models_of_no_known_form_are_left_to_data_designer(tmp_path: Path, models: str) -> None:
    assert problems(tmp_path, CONFIG + f"model_configs: {models}\n") == []


def seeded(source: str) -> str:
    return CONFIG + f"seed_config:\n  source:\n    {source}\n"


@pytest.mark.parametrize(
    ("source", "state"),
    [
        ("path: seeds.csv", None),
        ("path: gone.csv", "is missing, a file is needed"),
        ("path: /no/where/gone.csv", "is missing, a file is needed"),
        ("path: folder.csv", "is of the wrong type, a file is needed"),
        ("{seed_type: directory, path: gone}", "is missing, a folder is needed"),
        ("{seed_type: hf, path: datasets/lab/gone/x.parquet}", None),
        ("path: [gone.csv]", None),
    ],
)
def test_seed_data_is_looked_for_as_the_client_will(tmp_path: Path, source: str, state: str | None) -> None:
    """Beside the run file, as the client does, and not beside a config in a folder below."""
    (tmp_path / "seeds.csv").write_text("a\n1\n")
    (tmp_path / "folder.csv").mkdir()
    found = problems(tmp_path, seeded(source), name="below/config.yaml")
    told = client_says(tmp_path, seeded(source))
    assert [problem["code"] for problem in found] == told
    if state is None:
        assert found == []
    else:
        assert places(found)[0][1:] == ("seed_config.source.path", 9)
        assert state in found[0]["message"]


def client_says(folder: Path, config: str, bound: str | None = None) -> list[str]:
    """The codes of what the client would refuse, given the same files."""
    (folder / "builder.yaml").write_text(config)
    invocation = Invocation(num_records=1, input_bindings=InputBindings(seed_path=bound))
    work = DesignerWork(builder=str(folder / "builder.yaml"), base_folder=str(folder), invocation=invocation)
    return [str(problem.__struct_config__.tag) for problem in load(work)[1]]


def test_seed_data_that_the_run_file_binds_may_be_elsewhere(tmp_path: Path) -> None:
    assert problems(tmp_path, seeded("path: gone.csv"), bound="/on/the/cluster.csv") == []
    found = problems(tmp_path, CONFIG, bound="/on/the/cluster.csv")
    assert places(found) == [("wrong-combination", "invocation.input_bindings.seed_path", 5)]
    assert client_says(tmp_path, CONFIG, "/on/the/cluster.csv") == ["wrong-combination"]


@pytest.mark.parametrize(
    "config",
    [
        "columns:\n - a: [\n",
        "- a\n",
        "",
        "columns: 3\n",
        '{"columns": [\n1,,\n]}',
        "columns: [2024-13-45]\n",
        "[" * 3000,
    ],
)
def test_what_is_no_config_is_refused_as_the_client_would(tmp_path: Path, config: str) -> None:
    found = problems(tmp_path, config)
    assert [problem["code"] for problem in found] == client_says(tmp_path, config)
    assert [problem["source"] for problem in found] == ["config.yaml"]


def test_tabs_in_json_are_no_mistake_whatever_the_file_is_called(tmp_path: Path) -> None:
    assert problems(tmp_path, '{\n\t"columns": [\n\t\t{"model_alias": "writer"}\n\t]\n}') == []


def test_a_run_file_with_mistakes_does_not_hide_those_of_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG.replace("alias: writer", "alias: writr"))
    run = RUN.format(builder="source: config.yaml", bound="").replace("num_records: 10", "num_records: 0")
    assert [problem["path"] for problem in said(tmp_path, run)] == ["invocation.num_records", "columns[1].model_alias"]
    run = run.replace("alias: judge", "alias: [judge]")
    assert "columns[1].model_alias" not in [problem["path"] for problem in said(tmp_path, run)]
