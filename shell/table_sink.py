"""Writing one file of a merged dataset, chunk by chunk, so that it appears whole or not at all."""

import hashlib
import os
from typing import Any

from core.record.merge import MergedFile, MergePlan
from shell.table_source import Chunk, csv_line


class Sink:
    """A file that is being written, readable by its owner only."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "wb", opener=_private)  # noqa: SIM115

    def write(self, chunk: Chunk) -> None:
        """More rows."""
        self.file.writelines(chunk.lines)

    def end(self) -> None:
        """What comes after the last row."""

    def __enter__(self) -> "Sink":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """On disk when it went well; closed always."""
        with self.file:
            if kind is None:
                self.end()
                self.file.flush()
                os.fsync(self.file.fileno())


class _Parquet(Sink):
    def __init__(self, path: str, schema: Any) -> None:
        import pyarrow.parquet

        super().__init__(path)
        self._writer = pyarrow.parquet.ParquetWriter(self.file, schema)

    def write(self, chunk: Chunk) -> None:
        self._writer.write_batch(chunk)

    def end(self) -> None:
        self._writer.close()


def open_sink(plan: MergePlan, schema: Any, path: str) -> Sink:
    """A new file; with its header, if it has one."""
    if plan.write_as == "parquet":
        return _Parquet(path, schema)
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
