"""The rows of the seed dataset for this shard, put into the config as Data Designer's own selection strategies."""

from core.client_spec import ClientSpec
from core.designer_config import Json, SeedSelection, seed_selection, selected_rows, with_seed
from core.problem import At, Malformed, Problems, WrongCombination
from core.seed_rows import rows_for

AT = At(source="Data Designer config", path="seed_config")


def for_shard(config: Json, spec: ClientSpec) -> tuple[Json, Problems]:
    """The config with the selection of one shard; unchanged when there is only one."""
    seed = seed_selection(config)
    if seed is None or spec.shard_count == 1:
        return config, ()
    if seed.kind != "local" and seed.rows is None:
        return _without_size(config, spec, seed)
    try:
        size = _local_rows(seed.path or "") if seed.rows is None else 0
    except Exception as error:  # whatever the reader of a foreign file says
        return config, (Malformed(at=AT, found=f"{seed.path}: {error}", expected="a table that can be read"),)
    selected = selected_rows(seed, size)
    if selected.size < 1:
        return config, (Malformed(at=AT, found=f"{size} rows to choose from", expected="at least one seed row"),)
    rows = rows_for(spec.shard, spec.shard_count, spec.total_records, selected, ordered=seed.ordered)
    return with_seed(config, rows=rows), ()


def _without_size(config: Json, spec: ClientSpec, seed: SeedSelection) -> tuple[Json, Problems]:
    """Sources whose rows are known only after everything has been fetched: Data Designer's own partitions."""
    if seed.partition is None:
        return with_seed(config, partition=(spec.shard.index, spec.shard_count)), ()
    found = f"a partition of a seed dataset of type {seed.kind!r} cannot be shared out over {spec.shard_count} shards"
    expected = "use an index range (start, end) as selection_strategy, a local file, or one array task"
    return config, (WrongCombination(at=AT, found=found, expected=expected),)


def _local_rows(path: str) -> int:
    """Counted by the engine with which Data Designer reads seed files, so that both mean the same rows."""
    import duckdb

    connection = duckdb.connect()
    try:
        counted = connection.execute(f"SELECT COUNT(*) FROM '{path.replace(chr(39), chr(39) * 2)}'").fetchone()
    finally:
        connection.close()
    return 0 if counted is None else counted[0]
