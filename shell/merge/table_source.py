"""Rows of many files as chunks of bounded size, in the form that the merged dataset is written in.

Text that stays text is never parsed further than into records, so nothing of it changes. Everything else goes through
Arrow, with one schema for all files: numbers may differ in width, and a column may be empty in some.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from core.record.merge import MergePlan, SourceFile

ROWS, BYTES = 4096, 4 << 20
"""What is held at a time, whichever is less."""


class Lines(NamedTuple):
    """Records as they are written: one JSON object or one CSV row each, with its line end."""

    lines: Sequence[bytes]

    @property
    def num_rows(self) -> int:
        """As of a batch of Arrow."""
        return len(self.lines)

    def slice(self, start: int, count: int) -> "Lines":
        """As of a batch of Arrow."""
        return Lines(self.lines[start : start + count])


Chunk = Any
"""`Lines`, or a `pyarrow.RecordBatch`, which is not typed."""


class SchemasDiffer(Exception):
    """Files cannot be read as one table; `shard` is the first that does not fit."""

    def __init__(self, shard: int, reason: str) -> None:
        super().__init__(reason)
        self.shard, self.reason = shard, reason


def needs_arrow(plan: MergePlan) -> bool:
    """Whether the rows go through Arrow."""
    return plan.read_as != plan.write_as or plan.read_as == "parquet"


def schema_of(plan: MergePlan) -> Any:
    """One schema for all files, with the columns in the order of the first shard; None where none is needed."""
    if not needs_arrow(plan):
        return None
    import pyarrow

    schema = None
    for source in plan.sources:
        for found in _schemas(plan, source):
            try:
                schema = (
                    found if schema is None else pyarrow.unify_schemas([schema, found], promote_options="permissive")
                )
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
                raise SchemasDiffer(source.shard, str(error)) from None
    fields = {field.name: field for field in schema or ()}
    order = [name for name in plan.columns if name in fields]
    rest = [name for name in fields if name not in order]
    return pyarrow.schema([fields[name] for name in (*order, *rest)])


def _schemas(plan: MergePlan, source: SourceFile) -> Iterator[Any]:
    if plan.read_as == "parquet":
        import pyarrow.parquet

        yield pyarrow.parquet.read_schema(source.path).remove_metadata()
    else:
        yield from (batch.schema for batch in _arrow(plan, source, None))


def chunks(plan: MergePlan, source: SourceFile, schema: Any) -> Iterator[Chunk]:
    """The rows of a file, in order."""
    if not needs_arrow(plan):
        yield from _json_lines(source.path) if plan.read_as == "jsonl" else _csv_rows(source.path, plan.columns)
        return
    for batch in _arrow(plan, source, schema):
        if plan.write_as == "parquet":
            yield batch
        elif plan.write_as == "jsonl":
            yield Lines([msgspec.json.encode(row) + b"\n" for row in batch.to_pylist()])
        else:
            yield Lines([csv_line([_cell(value) for value in row.values()]) for row in batch.to_pylist()])


def _arrow(plan: MergePlan, source: SourceFile, schema: Any) -> Iterator[Any]:
    if plan.read_as == "parquet":
        yield from _parquet(source.path, schema)
    elif plan.read_as == "jsonl":
        yield from (_from_json(chunk, schema) for chunk in _json_lines(source.path))
    else:
        yield from (_from_csv(chunk, plan.columns, schema) for chunk in _csv_rows(source.path, plan.columns))


def _parquet(path: str, schema: Any) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=ROWS):
            table = pyarrow.Table.from_batches([batch.select(schema.names)])
            yield from table.cast(schema).combine_chunks().to_batches()


def _from_json(chunk: Lines, schema: Any) -> Any:
    import pyarrow
    import pyarrow.json

    options = pyarrow.json.ParseOptions(explicit_schema=schema)
    table = pyarrow.json.read_json(io.BytesIO(b"".join(chunk.lines)), parse_options=options)
    table = table if schema is None else table.select(schema.names).cast(schema)
    return table.combine_chunks().to_batches()[0]


def _from_csv(chunk: Lines, columns: Sequence[str], schema: Any) -> Any:
    """CSV knows no types, so all columns are text."""
    import pyarrow

    rows = list(csv.reader(io.StringIO(b"".join(chunk.lines).decode(), newline="")))
    texts = [pyarrow.array([row[at] for row in rows], pyarrow.string()) for at in range(len(columns))]
    return pyarrow.RecordBatch.from_arrays(texts, names=list(columns) if schema is None else schema.names)


def _json_lines(path: str) -> Iterator[Lines]:
    held: list[bytes] = []
    size = 0
    with open(path, "rb") as file:
        for line in file:
            if line.strip():
                held.append(line if line.endswith(b"\n") else line + b"\n")
                size += len(line)
            if len(held) >= ROWS or size >= BYTES:
                yield Lines(held)
                held, size = [], 0
    if held:
        yield Lines(held)


def _csv_rows(path: str, columns: Sequence[str]) -> Iterator[Lines]:
    """In the order of `columns`; the header is left out."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = (row for row in csv.reader(file) if row)
        header = next(rows, [])
        order = [header.index(name) for name in columns]
        while held := [csv_line([row[at] for at in order]) for row in islice(rows, ROWS)]:
            yield Lines(held)


def csv_line(cells: Sequence[str]) -> bytes:
    """One row."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _cell(value: object) -> str:
    """Text as it is, nothing for no value, everything else as JSON has it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.loads(said) if (said := msgspec.json.encode(value).decode()).startswith('"') else said
