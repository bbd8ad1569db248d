"""Rows and columns of files that are tables. What cannot be counted has None."""

import csv
import json
from collections.abc import Iterable

from core.result import ClaimedColumn

_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def rows_of(path: str) -> int | None:
    """Rows of a .parquet, .jsonl or .csv file; None for others and for broken ones."""
    try:
        if path.endswith(".parquet"):
            return _parquet_rows(path)
        if path.endswith(".jsonl"):
            with open(path, "rb") as file:
                return sum(1 for line in file if line.strip())
        if path.endswith(".csv"):
            with open(path, newline="", encoding="utf-8") as file:
                return max(sum(1 for row in csv.reader(file) if row) - 1, 0)
    except (OSError, UnicodeDecodeError, csv.Error):
        return None
    return None


def _parquet_rows(path: str) -> int | None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    try:
        return pyarrow.parquet.read_metadata(path).num_rows
    except pyarrow.ArrowException:
        return None


def columns_of(paths: Iterable[str]) -> tuple[ClaimedColumn, ...]:
    """The columns of all files together; parquet files may differ in the width of numbers only."""
    ordered = tuple(paths)
    parquet = tuple(path for path in ordered if path.endswith(".parquet"))
    if parquet:
        return _parquet_columns(parquet)
    return _text_columns(ordered[0]) if ordered else ()


def _parquet_columns(paths: tuple[str, ...]) -> tuple[ClaimedColumn, ...]:
    import pyarrow
    import pyarrow.parquet

    schemas = [pyarrow.parquet.read_schema(path) for path in paths]
    unified = pyarrow.unify_schemas(schemas, promote_options="permissive")
    return tuple(ClaimedColumn(name=field.name, type=str(field.type)) for field in unified)


def _text_columns(path: str) -> tuple[ClaimedColumn, ...]:
    with open(path, newline="", encoding="utf-8") as file:
        if path.endswith(".csv"):
            return tuple(ClaimedColumn(name=name, type="string") for name in next(csv.reader(file), []))
        first: object = json.loads(next((line for line in file if line.strip()), "{}"))
    if not isinstance(first, dict):
        return ()
    return tuple(ClaimedColumn(name=name, type=_JSON_TYPES.get(type(value), "null")) for name, value in first.items())
