"""Writing one file of a merged dataset, chunk by chunk, so that it appears whole or not at all."""

import contextlib
import hashlib
import os
from typing import IO, Any

from core.record.merge import MergedFile, MergePlan
from shell.merge.table_source import Chunk, csv_line


class Sink:
    """A file that is being written, readable by its owner only; a table of parquet when it has a schema."""

    def __init__(self, path: str, schema: Any = None) -> None:
        self.file = open(path, "wb", opener=_private)  # noqa: SIM115
        self._table = None if schema is None else _table(self.file, schema)

    def write(self, chunk: Chunk) -> None:
        """More rows."""
        if self._table is None:
            self.file.writelines(chunk.lines)
        else:
            self._table.write_batch(chunk)

    def __enter__(self) -> "Sink":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """On disk when it went well; closed always."""
        with self.file:
            if self._table is not None:  # also after a failure: it writes when it is closed, so before its file is
                with contextlib.suppress(*() if kind is None else (OSError,)):
                    self._table.close()
            if kind is None:
                self.file.flush()
                os.fsync(self.file.fileno())


def _table(file: IO[bytes], schema: Any) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, schema)


def open_sink(plan: MergePlan, schema: Any, path: str) -> Sink:
    """A new file; with its header, if it has one."""
    if plan.write_as == "parquet":
        return Sink(path, schema)
    names = plan.columns if schema is None else schema.names
    sink = Sink(path)
    if plan.write_as == "csv":
        sink.file.write(csv_line(names))
    return sink


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def seen(folder: str, name: str, records: int) -> MergedFile:
    """A file as it is on disk."""
    path = os.path.join(folder, name)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return MergedFile(path=name, records=records, bytes=os.path.getsize(path), sha256=digest)
