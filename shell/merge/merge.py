"""Merging the winners of a run into one dataset: checked, in bounded memory, whole or not at all, as often as asked.

Files are written one by one into a folder beside the destination, whose name holds the id of the merge; a finished
file has its final name there. So a merge that was killed goes on where it was. At the end that folder is renamed.
"""

import contextlib
import errno
import glob
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from typing import Any

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.codec import canonical_json
from core.outcome import Outcome, both, collect, refuse
from core.plan.shards import shard_of
from core.problem import At, ColumnsDiffer, DestinationTaken, FileDiffers, Problem, Unreadable, Unwritable, VersionUnfit
from core.record.merge import MANIFEST, Manifest, MergedShard, MergePlan, Partition, ShardResult, plan_merge
from core.result import Claim, judge
from shell.attempt.results import Winner
from shell.client.files import observe
from shell.merge.table_sink import open_sink, seen
from shell.merge.table_source import Chunk, SchemasDiffer, chunks, schema_of
from shell.operate.observe import read_winner
from shell.operate.opened import Opened
from shell.store import make_folder, sync_folder, write_atomic

TRIES = 50


class _Refused(Exception):
    """What was read is not what was claimed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem


def merge_run(opened: Opened, output: str, partial: bool) -> Outcome[Manifest]:
    """The manifest of the dataset at `output`, which is there afterwards.

    Errors: those of `plan_merge` and `judge`, `DestinationTaken`, `Unreadable`, `Unwritable`, `VersionUnfit`.
    """
    root, target = opened.run.root, os.path.abspath(output)
    checked = both(_outside(root, target), collect(_results(opened)))
    if not is_successful(checked):
        return refuse(*checked.failure())
    results = tuple(result for result in checked.unwrap()[1] if result is not None)
    planned = plan_merge(opened.plan, results, partial, root)
    if not is_successful(planned):
        return refuse(*planned.failure())
    try:
        return _merge(opened, planned.unwrap(), results, target)
    except _Refused as refused:
        return refuse(refused.problem)
    except SchemasDiffer as differ:
        return refuse(ColumnsDiffer(at=At(source=root), shard=differ.shard, reason=differ.reason))
    except ModuleNotFoundError as missing:
        needed = "pyarrow, which comes with data-designer"
        return refuse(VersionUnfit(at=At(source="this Python"), found=f"no {missing.name}", expected=needed))
    except OSError as error:
        path = str(error.filename or target)
        return refuse(Unwritable(at=At(source="merge"), path=path, reason=str(error.strerror or error)))


def _outside(root: str, target: str) -> Outcome[str]:
    """A dataset must not lie in a run, nor a run in a dataset."""
    run, place = os.path.realpath(root), os.path.realpath(target)
    if os.path.commonpath((run, place)) in (run, place):
        reason = "it lies in the folder of the run" if place.startswith(run) else "the folder of the run lies in it"
        return refuse(DestinationTaken(at=At(source=root), path=target, reason=reason))
    return Success(target)


def _results(opened: Opened) -> Iterator[Outcome[ShardResult | None]]:
    """The winner of every shard, with its digests checked; None where there is none."""
    for shard in range(opened.plan.request.array_count):
        yield _result(opened, shard)


def _result(opened: Opened, shard: int) -> Outcome[ShardResult | None]:
    run, plan = opened.run, opened.plan
    try:
        if read_winner(run, shard) is None:
            return Success(None)
        with open(run.winner(shard), "rb") as file:
            winner = msgspec.json.decode(file.read(), type=Winner)
        paths = run.attempt(shard, winner.attempt)
        with open(paths.result, "rb") as file:
            content = file.read()
        claim = msgspec.json.decode(content, type=Claim)
    except (OSError, msgspec.MsgspecError) as error:
        return refuse(Unreadable(at=At(source=run.winner(shard)), reason=str(error)))
    found = hashlib.sha256(content).hexdigest()
    if found != winner.sha256:
        at = At(source=run.winner(shard))
        return refuse(FileDiffers(at=at, file=winner.result, what="digest", claimed=winner.sha256, found=found))
    wanted = shard_of(plan.invocation.num_records, plan.request.array_count, shard).records
    problems = judge(claim, observe(paths.output, [file.path for file in claim.files]), wanted)
    if problems:
        return refuse(*problems)
    return Success(ShardResult(shard=shard, attempt=winner.attempt, sha256=found, output=paths.output, claim=claim))


def _merge(opened: Opened, plan: MergePlan, results: tuple[ShardResult, ...], target: str) -> Outcome[Manifest]:
    """Another process may merge the same: whatever is missing or there all of a sudden is looked at anew."""
    stage = f"{target}.{plan.merge_id}.partial"
    for _ in range(TRIES):
        there = _standing(target)
        if there is not None or not _is_free(target):
            return _as_it_stands(opened, plan, target, there)
        make_folder(stage)
        try:
            return Success(_make(opened, plan, results, target, stage))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
            if _standing(target) is not None:
                shutil.rmtree(stage, ignore_errors=True)
            time.sleep(0.05)
    return refuse(Unwritable(at=At(source="merge"), path=target, reason="others write there at the same time"))


def _make(opened: Opened, plan: MergePlan, results: tuple[ShardResult, ...], target: str, stage: str) -> Manifest:
    schema = schema_of(plan)
    for partition in plan.partitions:
        if not os.path.exists(os.path.join(stage, partition.name)):
            _write(plan, partition, schema, target, stage)
    manifest = _manifest(opened, plan, results, stage, schema)
    write_atomic(os.path.join(stage, MANIFEST), canonical_json(manifest))
    _remove_remains(plan, target, stage)
    os.rename(stage, target)
    sync_folder(os.path.dirname(target))
    return manifest


def _standing(target: str) -> Manifest | None:
    """What an earlier merge has left there."""
    try:
        with open(os.path.join(target, MANIFEST), "rb") as file:
            return msgspec.json.decode(file.read(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None


def _is_free(target: str) -> bool:
    try:
        return not os.listdir(target)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def _as_it_stands(opened: Opened, plan: MergePlan, target: str, there: Manifest | None) -> Outcome[Manifest]:
    """The same dataset, unchanged, is what was asked for; anything else is left alone."""
    at = At(source=opened.run.root)
    if there is None or there.merge_id != plan.merge_id:
        reason = "it holds something else" if there is None else f"it holds another dataset, of run {there.run_id}"
        return refuse(DestinationTaken(at=at, path=target, reason=reason))
    for file in there.files:
        try:
            same = seen(target, file.path, file.records) == file
        except OSError:
            same = False
        if not same:
            reason = f"it holds this dataset, but {file.path} has been changed since"
            return refuse(DestinationTaken(at=at, path=target, reason=reason))
    return Success(there)


def _write(plan: MergePlan, partition: Partition, schema: Any, target: str, stage: str) -> None:
    """Under a name of its own beside the stage, since another process may merge the same at the same time."""
    temporary = f"{target}.{plan.merge_id}.{secrets.token_hex(4)}.tmp"
    try:
        with open_sink(plan, schema, temporary) as sink:
            for chunk in _rows(plan, partition, schema):
                sink.write(chunk)
        os.rename(temporary, os.path.join(stage, partition.name))
        sync_folder(stage)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _rows(plan: MergePlan, partition: Partition, schema: Any) -> Iterator[Chunk]:
    """The rows of a partition, which may begin and end in the middle of files."""
    end = partition.first + partition.rows
    for source in plan.sources:
        if source.first >= end or source.first + source.rows <= partition.first:
            continue
        at = source.first
        for chunk in chunks(plan, source, schema):
            low, high = max(partition.first - at, 0), min(end - at, chunk.num_rows)
            if low < high:
                yield chunk.slice(low, high - low)
            at += chunk.num_rows
        if at - source.first != source.rows:
            found = str(at - source.first)
            raise _Refused(
                FileDiffers(
                    at=At(source="merge"),
                    file=source.path,
                    what="number of rows",
                    claimed=str(source.rows),
                    found=found,
                )
            )


def _manifest(opened: Opened, plan: MergePlan, results: tuple[ShardResult, ...], stage: str, schema: Any) -> Manifest:
    rows = {result.shard: sum(one.rows for one in plan.sources if one.shard == result.shard) for result in results}
    return Manifest(
        merge_id=plan.merge_id,
        run_id=opened.record.run_id,
        format=plan.write_as,
        records=plan.records,
        columns=plan.columns if schema is None else tuple(schema.names),
        files=tuple(seen(stage, partition.name, partition.rows) for partition in plan.partitions),
        shards=tuple(
            MergedShard(shard=one.shard, attempt=one.attempt, records=rows[one.shard], result_sha256=one.sha256)
            for one in results
        ),
        missing=tuple(sorted(set(range(opened.plan.request.array_count)) - set(rows))),
    )


def _remove_remains(plan: MergePlan, target: str, stage: str) -> None:
    """Of merges of the same that were killed."""
    wanted = {MANIFEST, *(partition.name for partition in plan.partitions)}
    strays = [os.path.join(stage, name) for name in os.listdir(stage) if name not in wanted]
    for path in (*strays, *glob.glob(f"{glob.escape(target)}.{plan.merge_id}.*.tmp")):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
