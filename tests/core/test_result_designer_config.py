import copy

import pytest

from core.client_spec import ModelEndpoint
from core.config.run_config import Concurrency
from core.designer_config import (
    Json,
    buffer_size,
    inner,
    resume_conflict,
    run_config_values,
    seed_selection,
    selected_rows,
    with_endpoints,
    with_seed,
)
from core.seed_rows import RowRange
from core.units import Alias

WRITER = ModelEndpoint(alias=Alias("writer"), base_url="http://127.0.0.1:8000/v1", model="served")
BARE: Json = {
    "columns": [],
    "model_configs": [{"alias": "writer", "model": "a", "provider": "b", "inference_parameters": {"top_p": 0.5}}],
    "seed_config": {"source": {"seed_type": "local", "path": "seeds.csv"}},
}
SHAPES = [BARE, {"data_designer": BARE, "library_version": "0.9.7"}]
FIELDS = ("buffer_size", "disable_early_shutdown", "otel_metrics_port", "shutdown_error_rate")


@pytest.mark.parametrize("config", SHAPES)
def test_a_model_is_answered_by_its_endpoint_in_both_shapes_of_the_file(config: Json) -> None:
    before = copy.deepcopy(config)
    changed = with_endpoints(config, [WRITER], [Concurrency(name=Alias("writer"), value=64)])
    assert inner(changed)["model_configs"] == [
        {
            "alias": "writer",
            "model": "served",
            "provider": "dd-slurm-writer",
            "skip_health_check": True,
            "inference_parameters": {"top_p": 0.5, "max_parallel_requests": 64},
        }
    ]
    assert config == before
    assert changed.keys() == config.keys()


def test_without_concurrency_the_parameters_of_the_author_stay() -> None:
    models = with_endpoints(BARE, [WRITER], [])["model_configs"]
    assert isinstance(models, list)
    assert models[0]["inference_parameters"] == {"top_p": 0.5}


def test_a_config_without_models_gets_one_for_each_endpoint() -> None:
    models = with_endpoints({"columns": []}, [WRITER], [])["model_configs"]
    assert models == [{"alias": "writer", "model": "served", "provider": "dd-slurm-writer", "skip_health_check": True}]


def test_the_config_does_not_depend_on_ports_so_that_a_later_attempt_may_resume() -> None:
    elsewhere = ModelEndpoint(alias=Alias("writer"), base_url="http://127.0.0.1:9999/v1", model="served")
    assert with_endpoints(BARE, [WRITER], []) == with_endpoints(BARE, [elsewhere], [])


@pytest.mark.parametrize("config", SHAPES)
def test_seed_path_and_rows_are_put_where_data_designer_reads_them(config: Json) -> None:
    changed = inner(with_seed(with_seed(config, path="/data/x.csv"), rows=RowRange(start=3, end=5)))
    assert changed["seed_config"] == {
        "source": {"seed_type": "local", "path": "/data/x.csv"},
        "selection_strategy": {"start": 3, "end": 5},
    }


def test_a_selection_of_the_author_is_shared_out_not_overridden() -> None:
    seed = seed_selection(with_seed(BARE, rows=RowRange(start=10, end=19)))
    assert seed is not None
    assert selected_rows(seed, 100) == RowRange(start=10, end=19)
    part = seed_selection(with_seed(BARE, partition=(2, 3)))
    assert part is not None
    assert selected_rows(part, 10) == RowRange(start=6, end=9)  # the last partition has the rest


@pytest.mark.parametrize("config", [{"columns": []}, {"columns": [], "seed_config": 3}, {"seed_config": {"source": 1}}])
def test_no_seed_or_a_malformed_one_is_left_to_data_designer(config: Json) -> None:
    assert seed_selection(config) is None
    assert with_seed(config, path="/x.csv") == config


def test_defaults_of_the_run_config() -> None:
    values = run_config_values({}, FIELDS, 1600, [])
    assert values == {"buffer_size": 100, "disable_early_shutdown": True, "otel_metrics_port": None}


def test_what_the_author_says_stands() -> None:
    authored: Json = {"buffer_size": 5, "otel_metrics_port": 9000, "shutdown_error_rate": 0.1, "new": 1}
    assert run_config_values(authored, FIELDS, 1600, []) == authored


def test_defaults_that_a_version_does_not_know_are_left_out() -> None:
    assert run_config_values({}, ("buffer_size",), 1600, []) == {"buffer_size": 100}


@pytest.mark.parametrize(
    ("records", "busiest", "size"),
    [(1, None, 16), (48, 16, 64), (1600, None, 100), (100_000, 128, 6250), (10_000_000, 8, 16384)],
)
def test_a_batch_is_a_sixteenth_but_keeps_the_servers_busy(records: int, busiest: int | None, size: int) -> None:
    concurrency = [] if busiest is None else [Concurrency(name=Alias("writer"), value=busiest)]
    assert buffer_size(records, concurrency) == size


def test_an_existing_dataset_is_never_passed_over_in_silence() -> None:
    assert resume_conflict("never", exists=True) == "dataset-exists"
    assert resume_conflict("always", exists=False) == "nothing-to-resume"
    assert resume_conflict("never", exists=False) is None
    assert resume_conflict("if_possible", exists=False) is None
    assert resume_conflict("if_possible", exists=True) is None
    assert resume_conflict("always", exists=True) is None
