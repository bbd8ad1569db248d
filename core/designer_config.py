"""A Data Designer config as plain JSON values → the same config for our endpoints, our seed file and one shard.

Only what is documented of the format is touched: `model_configs[]`, `seed_config`, and the fields of `RunConfig`.
Provider names and model names depend on nothing but the run file, so that a later attempt has the same config and
may resume the dataset of an earlier one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from core.client_spec import ModelEndpoint
from core.config.run_config import Concurrency
from core.seed_rows import RowRange

Json: TypeAlias = dict[str, object]

CHECKPOINTS = 16
LARGEST_BUFFER = 16384
_EARLY_SHUTDOWN = ("disable_early_shutdown", "shutdown_error_rate", "shutdown_error_window")
_DEFAULT_CONCURRENCY = 4


class SeedSelection(msgspec.Struct, frozen=True, kw_only=True):
    """What the author says about seed rows. `partition` is (index, number of partitions)."""

    kind: str
    path: str | None
    ordered: bool
    rows: RowRange | None
    partition: tuple[int, int] | None


def provider_name(alias: str) -> str:
    """The name of the model provider that stands for one endpoint."""
    return f"dd-slurm-{alias}"


def inner(config: Json) -> Json:
    """The part with the columns, of either shape of the file."""
    nested = config.get("data_designer")
    return nested if isinstance(nested, dict) else config


def with_endpoints(config: Json, endpoints: Sequence[ModelEndpoint], concurrency: Sequence[Concurrency]) -> Json:
    """The config with its models answered by our endpoints; without any models, one per endpoint is added."""
    served: dict[str, ModelEndpoint] = {endpoint.alias: endpoint for endpoint in endpoints}
    wanted: dict[str, int] = {entry.name: entry.value for entry in concurrency}
    declared = inner(config).get("model_configs")
    models: list[object] = declared if isinstance(declared, list) and declared else [{"alias": name} for name in served]
    changed = [_with_endpoint(model, served, wanted) if isinstance(model, dict) else model for model in models]
    return _with_inner(config, {"model_configs": changed})


def _with_endpoint(model: Json, served: Mapping[str, ModelEndpoint], wanted: Mapping[str, int]) -> Json:
    """One model. Servers are known to be ready, so Data Designer need not ask them again at its start."""
    alias = model.get("alias")
    endpoint = served.get(alias) if isinstance(alias, str) else None
    if endpoint is None:
        return {"provider": "none", "model": "none"} | model
    changed = model | {
        "model": endpoint.model,
        "provider": provider_name(endpoint.alias),
        "skip_health_check": True,
    }
    if endpoint.alias in wanted:
        given = model.get("inference_parameters")
        limit = {"max_parallel_requests": wanted[endpoint.alias]}
        changed["inference_parameters"] = (given if isinstance(given, dict) else {}) | limit
    return changed


def _with_inner(config: Json, changes: Json) -> Json:
    changed = inner(config) | changes
    return config | {"data_designer": changed} if isinstance(config.get("data_designer"), dict) else changed


def with_columns(config: Json, columns: Sequence[object]) -> Json:
    """The config with other columns."""
    return _with_inner(config, {"columns": list(columns)})


def seed_selection(config: Json) -> SeedSelection | None:
    """What the config says about seed rows; None without any, or when its form is for Data Designer to refuse."""
    seed = inner(config).get("seed_config")
    source = seed.get("source") if isinstance(seed, dict) else None
    if not isinstance(seed, dict) or not isinstance(source, dict):
        return None
    path = source.get("path")
    rows, partition = _selected(seed.get("selection_strategy"))
    return SeedSelection(
        kind=str(source.get("seed_type", "local")),
        path=path if isinstance(path, str) else None,
        ordered=seed.get("sampling_strategy", "ordered") != "shuffle",
        rows=rows,
        partition=partition,
    )


def _selected(strategy: object) -> tuple[RowRange | None, tuple[int, int] | None]:
    if not isinstance(strategy, dict):
        return None, None
    start, end = strategy.get("start"), strategy.get("end")
    if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end:
        return RowRange(start=start, end=end), None
    index, count = strategy.get("index", 0), strategy.get("num_partitions", 1)
    if isinstance(index, int) and isinstance(count, int) and 0 <= index < count:
        return None, (index, count)
    return None, None


def selected_rows(selection: SeedSelection, size: int) -> RowRange:
    """The rows that the author selected out of `size`; partitions are cut as Data Designer cuts them."""
    if selection.rows is not None:
        return selection.rows
    index, count = selection.partition or (0, 1)
    each = size // count
    return RowRange(start=index * each, end=size - 1 if index == count - 1 else (index + 1) * each - 1)


def with_seed(
    config: Json, *, path: str | None = None, rows: RowRange | None = None, partition: tuple[int, int] | None = None
) -> Json:
    """The config with another seed path, or with the rows or the partition of one shard."""
    seed = inner(config).get("seed_config")
    if not isinstance(seed, dict) or not isinstance(seed.get("source"), dict):
        return config
    changed: Json = dict(seed)
    if path is not None:
        changed["source"] = seed["source"] | {"path": path}
    if rows is not None:
        changed["selection_strategy"] = {"start": rows.start, "end": rows.end}
    if partition is not None:
        changed["selection_strategy"] = {"index": partition[0], "num_partitions": partition[1]}
    return _with_inner(config, {"seed_config": changed})


def run_config_values(authored: Json, known: Collection[str], records: int, concurrency: Sequence[Concurrency]) -> Json:
    """The fields for Data Designer's `RunConfig`: what the author says, and our defaults for the rest.

    Early shutdown is off, unless the author speaks of it: servers that are restarted make requests fail for a while,
    and whether to give up is decided by the supervisor. No metrics port: two clients on one node would collide.
    """
    defaults: Json = {"otel_metrics_port": None, "buffer_size": buffer_size(records, concurrency)}
    if not any(name in authored for name in _EARLY_SHUTDOWN):
        defaults["disable_early_shutdown"] = True
    return {name: value for name, value in defaults.items() if name in known} | authored


def buffer_size(records: int, concurrency: Sequence[Concurrency]) -> int:
    """Rows of a batch, which are lost together when the client is interrupted: the unit of resume and of progress.

    A sixteenth of the shard, but enough for four rows per request in flight, so that waiting for the last rows of a
    batch costs little; and never more than 16384. It depends on the run file only: resume demands the same value.
    """
    busiest = max((entry.value for entry in concurrency), default=_DEFAULT_CONCURRENCY)
    return min(LARGEST_BUFFER, max(-(-records // CHECKPOINTS), 4 * busiest))


def resume_conflict(
    resume: Literal["never", "always", "if_possible"], exists: bool
) -> Literal["dataset-exists", "nothing-to-resume"] | None:
    """What forbids the start. Data Designer itself would make another folder beside an existing one, unsaid."""
    if resume == "never" and exists:
        return "dataset-exists"
    return "nothing-to-resume" if resume == "always" and not exists else None
