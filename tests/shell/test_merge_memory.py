"""A dataset that is larger than the memory of the process is merged nevertheless."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow
import pyarrow.parquet
import pytest

from core.record.merge import MergePlan, Partition, SourceFile, TableFormat
from tests.test_architecture import ROOT

MIB = 1 << 20
ROW = "x" * 1000
ROWS, LIMIT = 200_000, 150 * MIB
"""200 MB of text."""
_PROGRAM = """
import re, sys
import msgspec
from core.record.merge import MergePlan
from shell.merge.merge import _write
from shell.merge.table_source import needs_arrow, schema_of
plan = msgspec.json.decode(open(sys.argv[1], "rb").read(), type=MergePlan)
if needs_arrow(plan):
    import pyarrow.json, pyarrow.parquet
peak = lambda: int(re.search(r"VmHWM:\\s+([0-9]+) kB", open("/proc/self/status").read())[1]) * 1024
before = peak()
for partition in plan.partitions:
    _write(plan, partition, schema_of(plan), sys.argv[2], sys.argv[2])
print(peak() - before)
"""


def write(source: Path) -> None:
    """Rows that do not compress to nothing, in files as Data Designer makes them: a row group for every thousand."""
    rows = ({"n": number, "text": f"{number} {ROW}"} for number in range(ROWS))
    if source.suffix == ".jsonl":
        with source.open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return
    schema = pyarrow.schema([("n", pyarrow.int64()), ("text", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(source, schema) as writer:
        while group := list(islice(rows, 1000)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "written"), [("jsonl", "jsonl"), ("jsonl", "parquet"), ("jsonl", "csv"), ("parquet", "parquet")]
)
def test_memory_is_bounded(tmp_path: Path, read: TableFormat, written: TableFormat) -> None:
    source = tmp_path / f"a.{read}"
    write(source)
    plan = MergePlan(
        merge_id="m",
        read_as=read,
        write_as=written,
        columns=("n", "text"),
        sources=(SourceFile(shard=0, path=str(source), first=0, rows=ROWS),),
        partitions=(Partition(name=f"part.{written}", first=0, rows=ROWS),),
        records=ROWS,
    )
    told = tmp_path / "plan.json"
    told.write_bytes(msgspec.json.encode(plan))
    target = tmp_path / "out"
    target.mkdir()
    done = subprocess.run(
        (sys.executable, "-c", _PROGRAM, str(told), str(target)), cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < LIMIT, f"{int(done.stdout) / MIB:.0f} MiB more than at the start"
    assert (target / f"part.{written}").exists()
