"""``dd-slurm merge``, and how it answers."""

import sys

from returns.pipeline import is_successful

from core.codec import canonical_json
from core.report import counted
from shell.commands.answer import EX_OK, refuse
from shell.merge.merge import merge_run
from shell.operate.opened import open_files


def merge(folder: str, output: str, partial: bool, as_json: bool) -> int:
    """Merge, and say what is there now. Needs nothing of Slurm."""
    opened = open_files(folder)
    if not is_successful(opened):
        return refuse(opened.failure(), as_json)
    merged = merge_run(opened.unwrap(), output, partial)
    if not is_successful(merged):
        return refuse(merged.failure(), as_json)
    manifest = merged.unwrap()
    if as_json:
        sys.stdout.write(canonical_json(manifest).decode())
        return EX_OK
    print(f"{counted(manifest.records, 'record')} of run {manifest.run_id} as {manifest.format} in {output}")
    for file in manifest.files:
        print(f"  {file.path}: {counted(file.records, 'record')}, {file.bytes} bytes")
    if manifest.missing:
        print(f"left out: {counted(len(manifest.missing), 'shard')} without a result", file=sys.stderr)
    return EX_OK
