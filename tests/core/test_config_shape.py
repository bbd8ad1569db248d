"""From a tree to our structs: every misfit is found, with its path, and nothing else is changed."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from core.config.profile import ProfileCatalog
from core.config.raw import parse
from core.config.run_config import RunConfig
from core.config.shape import Shaped, shape
from core.config.words import as_builtins
from core.report import as_text, report
from tests.core.authored_form import as_authored, documents

GOOD = Path(__file__).parents[1] / "golden_config" / "good"
DOCUMENT = as_builtins(parse("a.yaml", (GOOD / "every_documented_field.yaml").read_bytes()).root)
FREE = (
    "builder.inline",
    "invocation.run_config",
    "invocation.model_concurrency",
    "client.dependencies.index_credentials",
)


def shaped(document: object) -> Shaped[RunConfig]:
    return shape("run.json", parse("run.json", json.dumps(document, indent=1).encode()).root, RunConfig)


def places(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every mapping and list of a document."""
    if isinstance(value, dict | list):
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, f"{path}[{index}]")


def at(document: object, path: str) -> object:
    return dict(places(document))[path]


TABLES = [
    path
    for path, value in places(DOCUMENT)
    if isinstance(value, dict) and not path.startswith(FREE) and not path.endswith(".environment")
]


@pytest.mark.parametrize("path", TABLES)
def test_an_unknown_field_is_found_anywhere(path: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    table = at(document, path)
    assert isinstance(table, dict)
    table["zzz"] = 1
    place = f"{path}.zzz" if path else "zzz"
    found = [(said.code, said.path) for said in map(report, shaped(document).problems)]
    assert found == [("unknown-field", place)]


@pytest.mark.parametrize(
    "path", [path for path, _ in places(DOCUMENT) if path and not path.startswith("builder.inline")]
)
def test_a_value_in_place_of_a_table_or_list_is_found_anywhere(path: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    replace(document, path, True)
    result = shaped(document)
    free_json = path in FREE[:2]
    assert [said.path for said in map(report, result.problems)] == ([] if free_json else [path])
    assert result.broken == (() if free_json else (path,))


def replace(document: object, path: str, value: object) -> None:
    for outer, table in places(document):
        if isinstance(table, dict):
            for key in table:
                if (f"{outer}.{key}" if outer else key) == path:
                    table[key] = value
                    return
        elif isinstance(table, list):
            for index in range(len(table)):
                if f"{outer}[{index}]" == path:
                    table[index] = value
                    return


RUN = {"schema_version": 1, "name": "x", "deployments": [{"model_alias": "w", "model": "lab/w"}]}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"nmae": "x"}, ["nmae: unknown field, did you mean 'name'"]),
        ({"invocation": {"num_recrods": 5}}, ["invocation.num_recrods: unknown field, did you mean 'num_records'"]),
        ({"num_records": 5}, ["num_records: unknown field, did you mean 'invocation.num_records'"]),
        ({"zzz": 5}, ["zzz: unknown field, known fields: schema_version, name, deployments"]),
        ({"invocation": {}}, ["invocation: the field 'num_records' is missing, add 'num_records'"]),
        ({"invocation": {"num_records": 0}}, ["found the number 0, expected a whole number of at least 1"]),
        ({"invocation": {"num_records": -5}}, ["found the number -5, expected a whole number of at least 1"]),
        ({"invocation": {"num_records": 5.0}}, ["found the number 5.0, expected a whole number"]),
        ({"invocation": {"num_records": "5"}}, ["found the text '5', expected a whole number"]),
        ({"invocation": {"num_records": True}}, ["found true, expected a whole number"]),
        ({"invocation": {"num_records": None}}, ["found nothing (null), expected a whole number"]),
        ({"name": 5}, ["name: found the number 5, expected a name of at most 128", "in quotes"]),
        ({"name": "a b"}, ["name: found the text 'a b', expected a name of at most 128"]),
        ({"name": "x" * 129}, ["…', expected a name of at most 128"]),
        ({"name": "x\n"}, ["expected a name of at most 128"]),
        ({"schema_version": 2}, ["schema_version: found the number 2, expected 1"]),
        ({"schema_version": True}, ["schema_version: found true, expected 1"]),
        ({"deployments": []}, ["deployments: found an empty list, expected a list of at least 1"]),
        ({"deployments": {}}, ["deployments: found an empty mapping, expected a list"]),
        ({"submission": {"time_limit": "3h"}}, ["expected a time limit HH:MM:SS or D-HH:MM:SS such as 03:55:00"]),
        ({"submission": {"time_limit": "00:60:00"}}, ["expected a time limit"]),
        ({"submission": {"comment": "a\nb"}}, ["expected a text of one line"]),
        ({"submission": {"partition": ["a", 5]}}, ["submission.partition[1]: found the number 5"]),
        ({"submission": {"partition": "a b"}}, ["expected a partition, or several separated by commas"]),
        ({"client": {"image": 5}}, ["client.image: found the number 5"]),
        ({"client": {"command": []}}, ["client.command: found an empty list, expected a list of at least 1"]),
        ({"output": {"format": "xml"}}, ["found the text 'xml', expected 'csv', 'jsonl' or 'parquet'"]),
        ({"output": None}, ["output: found nothing (null), expected a mapping with format, partitions"]),
    ],
)  # fmt: skip
def test_a_misfit_in_words(patch: dict[str, object], expected: list[str]) -> None:
    problems = shaped(RUN | patch).problems
    text = "\n".join(map(as_text, problems)).replace(" [unknown-field]\n    hint: ", ", ")
    text = text.replace(" [missing-field]\n    hint: ", ", ")
    assert len(problems) == 1
    assert all(part in text for part in expected), text


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({"startup_timeout": 900}, "found the number 900, expected a duration such as 60s, 15m, 1h or 2d, in quotes"),
        ({"startup_timeout": "15 min"}, "expected a duration such as 60s"),
        ({"startup_timeout": "0"}, "expected a duration such as 60s"),
        ({"startup_timeout": "-5m"}, "expected a duration such as 60s"),
        ({"lead_boot_standoff": "-5m"}, "found the text '-5m', expected a duration such as 5s or 1m, or 0"),
        ({"lead_boot_standoff": 5}, "expected a duration such as 5s or 1m, or 0 for no wait, in quotes"),
        ({"readiness_path": "health"}, "expected a path of the server's API"),
        ({"readiness_path": "//evil.example.org/health"}, "expected a path of the server's API"),
        ({"readiness_path": "/health?x=1"}, "expected a path of the server's API"),
        ({"vllm_version": 0.11}, "found the number 0.11, expected a version in quotes such as '0.11.1'"),
        ({"image": "vllm"}, "server.image: found the text 'vllm', expected a mapping with name, path"),
        ({"image": {"path": "images/x.sqsh"}}, "image.path: found the text 'images/x.sqsh', expected an absolute path"),
        ({"image": {"path": "/images/../x.sqsh"}}, "expected an absolute path without '.', '..'"),
        ({"extra_args": "--max-model-len 5"}, "found the text '--max-model-len 5', expected a list"),
        ({"extra_args": ["--seed", 5]}, "server.extra_args[1]: found the number 5, expected a text of one line"),
        ({"environment": {"A": "b"}}, "expected {type: literal, value: …} or {type: secret, environment: …}"),
        ({"environment": {"A": {"value": "b"}}}, "environment.A: found a mapping without 'type'"),
        ({"environment": {"A": {"type": "plain"}}}, "A.type: found the text 'plain', expected 'literal' or 'secret'"),
        ({"environment": {"A": {"type": "literal", "value": 5}}}, "environment.A.value: found the number 5"),
        ({"environment": {"1A": {"type": "literal", "value": "5"}}}, "found the name '1A', expected the name of"),
        ({"environment": [1]}, "server.environment: found a list of 1, expected a mapping (name: value)"),
        ({"queue_backpressure": {"max_waiting_requests": -1}}, "expected a whole number of at least 0"),
        ({"enable_expert_parallel": "yes"}, "found the text 'yes', expected true or false"),
    ],
)  # fmt: skip
def test_a_misfit_of_a_server_in_words(server: dict[str, object], expected: str) -> None:
    deployments = [{"model_alias": "w", "model": "lab/w", "server": server}]
    problems = shaped(RUN | {"deployments": deployments}).problems
    assert [expected in as_text(problem) for problem in problems] == [True], "\n".join(map(as_text, problems))


def test_zero_may_be_a_number_where_no_wait_is_meant() -> None:
    server = {"lead_boot_standoff": 0, "rank_launch_stagger": "0s"}
    result = shaped(RUN | {"deployments": [{"model_alias": "w", "model": "lab/w", "server": server}]})
    assert result.problems == ()
    assert result.value.deployments[0].server.lead_boot_standoff == "0"


def test_a_misspelt_field_is_not_missing_too() -> None:
    result = shaped(RUN | {"deployments": [{"model_alias": "w", "modle": "lab/w"}]})
    assert [report(problem).code for problem in result.problems] == ["unknown-field"]
    assert result.broken == ("deployments[0].model",)


@pytest.mark.parametrize("secret", ["hf_abcdefghijklmnopqrstuvwxyz", "plain"])
def test_a_text_where_a_reference_belongs_is_not_shown(secret: str) -> None:
    server = {"environment": {"HF_TOKEN": secret, "OTHER": secret}}
    provider = {"provider_type": "sse", "name": "x", "endpoint": "https://x.example.org", "api_key": secret}
    invocation = {"num_records": 1, "mcp_providers": [provider]}
    deployments = [{"model_alias": "w", "model": "lab/w", "server": server}]
    problems = shaped(RUN | {"invocation": invocation, "deployments": deployments}).problems
    assert len(problems) == 3
    assert not any(secret in as_text(problem) for problem in problems)


def test_json_keeps_the_order_of_the_author() -> None:
    result = shaped(RUN | {"builder": {"inline": {"z": 1, "columns": [], "a": {"y": 1, "b": 2}}}})
    assert result.value.builder is not None
    assert result.value.builder.inline == '{"z":1,"columns":[],"a":{"y":1,"b":2}}'


@pytest.mark.parametrize("kind", [RunConfig, ProfileCatalog])
@settings(max_examples=12)
@given(data=st.data())
def test_documents_of_the_right_form_go_round(kind: type[RunConfig | ProfileCatalog], data: st.DataObject) -> None:
    goes_round(kind, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RunConfig, ProfileCatalog])
@settings(max_examples=100)
@given(data=st.data())
def test_many_more_documents_go_round(kind: type[RunConfig | ProfileCatalog], data: st.DataObject) -> None:
    goes_round(kind, data)


def goes_round(kind: type[RunConfig | ProfileCatalog], data: st.DataObject) -> None:
    document = data.draw(documents(inspect.type_info(kind)))
    first = shape("a.json", parse("a.json", json.dumps(document).encode()).root, kind)
    assert first.problems == ()
    again = parse("a.json", json.dumps(as_authored(first.value)).encode())
    assert shape("a.json", again.root, kind).value == first.value
    assert msgspec.json.decode(msgspec.json.encode(first.value), type=kind) == first.value


JUNK: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({}) | st.just([{"a": [1]}])
)


@given(data=st.data())
def test_any_document_gives_a_value_and_problems(data: st.DataObject) -> None:
    document = copy.deepcopy(DOCUMENT)
    for path in data.draw(st.lists(st.sampled_from([path for path, _ in places(DOCUMENT) if path]), max_size=3)):
        replace(document, path, data.draw(JUNK))
    result = shaped(document)
    assert isinstance(result.value, RunConfig)
    assert all(as_text(problem) for problem in result.problems)
    assert bool(result.problems) >= bool(result.broken)
