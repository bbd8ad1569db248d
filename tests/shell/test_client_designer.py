"""The client with the real Data Designer; each test pays about four seconds for importing it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.client_spec import Prepared, Refused
from core.result import judge
from shell.client.files import observe
from tests.shell.client_world import TOKEN, World
from tests.shell.stub_model import StubModel, serving

pytestmark = pytest.mark.slow
pq = pytest.importorskip("pyarrow.parquet")

TEXT = {"name": "text", "column_type": "llm-text", "model_alias": "writer", "prompt": "About {{ topic }}."}
TOPIC = {"name": "topic", "column_type": "sampler", "sampler_type": "category", "params": {"values": ["sea"]}}
MODELS = [{"alias": "writer", "model": "authored", "provider": "authored"}]
CONFIG: dict[str, Any] = {"model_configs": MODELS, "columns": [TOPIC, TEXT]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[StubModel]:
    with serving() as model:
        yield model


@pytest.fixture
def model(server: StubModel) -> StubModel:
    server.requests.clear()
    server.tokens.clear()
    server.status = 200
    server.release()
    return server


def seeded(folder: Path, rows: int, **selection: Any) -> dict[str, Any]:
    (folder / "seeds.csv").write_text("topic\n" + "".join(f"topic-{row:03d}\n" for row in range(rows)))
    seed = {"source": {"seed_type": "local", "path": "seeds.csv"}, **selection}
    return {"model_configs": MODELS, "columns": [TEXT], "seed_config": seed}


def column(world: World, name: str) -> list[Any]:
    tables = [file.path for file in world.claim().files if file.rows is not None]
    return [value for path in tables for value in pq.read_table(world.output / path)[name].to_pylist()]


def test_a_dataset_is_made_through_the_endpoint_and_claimed(world: World, model: StubModel) -> None:
    world.designer(
        {"data_designer": CONFIG, "library_version": "0.9.7"},
        [world.endpoint("writer", model.port)],
        num_records=40,
        model_concurrency=[{"name": "writer", "value": 3}],
    )
    assert world.run() == 0, world.log
    claim = world.claim()
    assert judge(claim, observe(str(world.output), [file.path for file in claim.files]), 40) == ()
    assert sum(file.rows or 0 for file in claim.files) == 40
    assert [column.name for column in claim.columns] == ["topic", "text"]
    assert (claim.resumed, claim.made_with.split()[0]) == ("never", "data-designer")
    assert {request["model"] for request in model.requests} == {"served-writer"}
    assert len(model.requests) == 40  # not one more: health is checked elsewhere
    assert model.tokens == {f"Bearer {TOKEN}"}
    assert world.progress().records_done == 40
    said = [path for path in world.folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert said == [world.token]
    assert TOKEN.encode() not in world.log
    shared = world.folder / ".data-designer"
    assert [path.name for path in shared.rglob("*")] == ["managed-assets"]  # no settings that others write too


def test_a_killed_client_goes_on_where_its_last_batch_ended(world: World, model: StubModel) -> None:
    world.designer(
        CONFIG,
        [world.endpoint("writer", model.port)],
        num_records=24,
        resume="if_possible",
        run={"buffer_size": 8, "max_concurrent_row_groups": 1},
    )
    model.allowed = 12
    with world.start() as client:
        assert client.stdin is not None
        client.stdin.write(b"go\n")
        client.stdin.flush()
        model.wait_for_requests(12)
        os.kill(client.pid, signal.SIGKILL)
        client.communicate(timeout=30)
    assert not world.has("claim")
    assert world.progress().records_done == 8
    model.release()
    before = len(model.requests)
    world.spec = None
    world.designer(
        CONFIG,
        [world.endpoint("writer", model.port)],
        num_records=24,
        resume="always",
        run={"buffer_size": 8, "max_concurrent_row_groups": 1},
    )
    assert world.run() == 0, world.log
    assert (world.claim().records, world.claim().resumed) == (24, "always")
    assert len(model.requests) - before <= 16 + 4  # what was held may have been answered to nobody
    assert len(column(world, "text")) == 24


def test_an_existing_dataset_is_a_conflict_and_a_changed_config_an_error(world: World, model: StubModel) -> None:
    endpoints = [world.endpoint("writer", model.port)]
    world.designer(CONFIG, endpoints, num_records=4)
    assert world.run() == 0, world.log
    assert world.run() == 78
    assert world.refusals() == [("dataset-exists", "invocation.resume")]
    other = {"model_configs": MODELS, "columns": [TOPIC, TEXT | {"prompt": "Another prompt on {{ topic }}."}]}
    world.designer(other, endpoints, num_records=4, resume="always")
    assert world.run() == 65
    assert "another config" in world.error().hint
    world.designer(other, endpoints, num_records=4, resume="if_possible")
    assert world.run() == 0, world.log
    assert world.claim().resumed == "never"
    assert not any(file.path.startswith("dataset/") for file in world.claim().files)


def test_shards_use_the_seed_rows_that_one_run_would(world: World, model: StubModel) -> None:
    used: list[list[str]] = []
    for shard in range(2):
        world.designer(
            seeded(world.folder, 12),
            [world.endpoint("writer", model.port)],
            num_records=9,
            shards=2,
            shard=shard,
            dataset_name=f"shard-{shard}",
        )
        assert world.run() == 0, world.log
        used.append(column(world, "topic"))
    assert used == [[f"topic-{row:03d}" for row in range(5)], [f"topic-{row:03d}" for row in range(5, 9)]]


def test_requests_that_servers_refuse_end_in_an_error_that_says_so(world: World, model: StubModel) -> None:
    model.status = 400
    world.designer(CONFIG, [world.endpoint("writer", model.port)], num_records=4)
    assert world.run() == 65
    assert world.error().error == "DataDesignerGenerationError"
    assert not world.has("claim")


def test_every_problem_is_told_before_any_server_is_needed(world: World) -> None:
    config = {
        "model_configs": MODELS,
        "columns": [TOPIC, TEXT | {"model_alias": "writter"}],
        "tool_configs": [{"tool_alias": "web", "providers": ["serch"]}],
    }
    world.designer(
        config,
        [world.endpoint("writer"), world.endpoint("judge")],
        run={"bufer_size": 3},
        resume="always",
        mcp_providers=[
            {
                "provider_type": "sse",
                "name": "search",
                "endpoint": "http://127.0.0.1:9/sse",
                "api_key": {"type": "secret", "environment": "NOT_SET_ANYWHERE"},
            }
        ],
    )
    assert world.run() == 78
    assert world.refusals() == [
        ("unknown-field", "invocation.run_config.bufer_size"),
        ("nothing-to-resume", "invocation.resume"),
        ("missing-field", "invocation.mcp_providers[0]"),
        ("unknown-name", "columns.text"),
        ("unknown-name", "deployments"),
        ("unknown-name", "tool_configs.web.providers"),
    ]
    assert world.hints()[0] == "did you mean 'buffer_size'?"
    assert world.hints()[3] == "did you mean 'writer'?"
    assert world.hints()[5] == "did you mean 'search'?"


@pytest.mark.parametrize(
    ("config", "code", "path"),
    [
        ("columns: [", "bad-syntax", ""),
        ("{'a': 1}", "malformed", ""),
        ("just words", "malformed", ""),
        ({"columns": [TEXT | {"promt": "x"}]}, "unknown-field", "data_designer.columns[0].llm-text.promt"),
        ({"columns": [{"name": "x"}]}, "malformed", "data_designer.columns[0]"),
        ({"columns": [TOPIC, TEXT | {"prompt": "{{ topic | no_such_filter }}"}]}, "config-unfit", "columns.text"),
    ],
)
def test_a_bad_config_is_refused_with_its_place(world: World, config: Any, code: str, path: str) -> None:
    world.designer(config, [world.endpoint("writer")])
    assert world.run() == 78
    assert world.refusals() == [(code, path)]


def test_everything_that_data_designer_has_against_a_config_is_told_in_its_words(world: World) -> None:
    long = "a_column_with_a_name_that_is_so_long_that_a_terminal_would_break_the_sentence_about_it"
    other = TEXT | {"name": long, "prompt": "About {{ nothing_known }}."}
    world.designer({"columns": [TEXT, other]}, [world.endpoint("writer")])
    assert world.run() == 78
    assert world.refusals() == [("config-unfit", "columns.text"), ("config-unfit", f"columns.{long}")]
    prepared = world.preparation()
    assert isinstance(prepared, Refused)
    words = f"The prompt template for '{long}' references a column that does not exist: 'nothing_known'."
    assert prepared.problems[1].message == f"Data Designer refuses the config: invalid reference: {words}"


def test_yaml_is_read_and_models_may_be_left_out(world: World) -> None:
    yaml = """
    columns:
      - {name: topic, column_type: sampler, sampler_type: category, params: {values: [sea]}}
      - {name: text, column_type: llm-text, model_alias: writer, prompt: "About {{ topic }}"}
    """
    world.designer(yaml, [world.endpoint("writer")])
    with world.start() as client:
        client.communicate(b"", timeout=60)
        assert client.returncode == 75
    assert isinstance(world.preparation(), Prepared)


def test_a_seed_file_that_is_not_there_is_refused_by_its_whole_path(world: World) -> None:
    config = seeded(world.folder, 3)
    (world.folder / "seeds.csv").unlink()
    world.designer(config, [world.endpoint("writer")])
    assert world.run() == 78
    assert world.refusals() == [("path-unusable", "seed_config.source.path")]
    bound = world.folder / "bound.csv"
    bound.write_text("topic\nx\n")
    world.designer(config, [world.endpoint("writer")], input_bindings={"seed_path": str(bound)})
    with world.start() as client:
        client.communicate(b"", timeout=60)
    assert isinstance(world.preparation(), Prepared)
