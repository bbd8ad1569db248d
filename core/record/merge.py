"""From the results of all shards to the files of one dataset: which rows go where, decided before anything is read.

Rows keep the order of shards, and in a shard that of its files. The id of a merge is made from everything that decides
its content, so that a repeated one is known again, and one that was killed goes on.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from core.codec import compact_json
from core.outcome import Outcome, unless
from core.plan.model import RunPlan
from core.plan.shards import shard_of
from core.problem import At, ColumnsDiffer, Problem, RecordCountDiffers, ShardsMissing
from core.result import Claim, ClaimedFile

TableFormat: TypeAlias = Literal["parquet", "jsonl", "csv"]
MANIFEST = "_dd_slurm.json"
"""Readers of datasets pass over names that begin so."""


class ShardResult(msgspec.Struct, frozen=True, kw_only=True):
    """A winner. `output` is where its files are, `sha256` that of its `result.json`."""

    shard: int
    attempt: int
    sha256: str
    output: str
    claim: Claim


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of rows; `first` is the number of its first one in the whole dataset."""

    shard: int
    path: str
    first: int
    rows: int


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the merged dataset."""

    name: str
    first: int
    rows: int


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, as which kind of file, and what to write."""

    merge_id: str
    read_as: TableFormat
    write_as: TableFormat
    columns: tuple[str, ...]
    sources: tuple[SourceFile, ...]
    partitions: tuple[Partition, ...]
    records: int


class MergedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as it was written."""

    path: str
    records: int
    bytes: int
    sha256: str


class MergedShard(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempt the rows of a shard come from."""

    shard: int
    attempt: int
    records: int
    result_sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`_dd_slurm.json` beside the merged files."""

    merge_id: str
    run_id: str
    format: TableFormat
    records: int
    columns: tuple[str, ...]
    files: tuple[MergedFile, ...]
    shards: tuple[MergedShard, ...]
    missing: tuple[int, ...]


def plan_merge(plan: RunPlan, results: Sequence[ShardResult], partial: bool, run_dir: str) -> Outcome[MergePlan]:
    """`results` are in the order of shards.

    Errors: `ShardsMissing`, `ColumnsDiffer`, `RecordCountDiffers`; all together.
    """
    at = At(source=run_dir)
    sources = tuple(_sources(results))
    records = sum(one.rows for one in sources)
    columns = tuple(column.name for column in results[0].claim.columns) if results else ()
    merged = MergePlan(
        merge_id="",
        read_as=format_of(sources[0].path) or "jsonl" if sources else "jsonl",
        write_as=plan.output.format,
        columns=columns,
        sources=sources,
        partitions=_partitions(records, plan.output.partitions or 1, plan.output.format),
        records=records,
    )
    digests = tuple((one.shard, one.sha256) for one in results)
    merge_id = hashlib.sha256(compact_json((digests, merged.write_as, merged.partitions))).hexdigest()[:32]
    problems = (*_missing(plan, results, partial, at), *_differences(results, at), *_count(plan, records, at))
    return unless(problems, msgspec.structs.replace(merged, merge_id=merge_id))


def _sources(results: Sequence[ShardResult]) -> Iterator[SourceFile]:
    first = 0
    for result in results:
        for file in _tables(result.claim):
            rows = file.rows or 0
            yield SourceFile(shard=result.shard, path=f"{result.output}/{file.path}", first=first, rows=rows)
            first += rows


def _tables(claim: Claim) -> tuple[ClaimedFile, ...]:
    return tuple(file for file in claim.files if file.rows is not None and format_of(file.path) is not None)


def format_of(path: str) -> TableFormat | None:
    """By the ending of its name."""
    ending = path.rpartition(".")[2]
    return next((known for known in get_args(TableFormat) if known == ending), None)


def _partitions(records: int, count: int, ending: str) -> tuple[Partition, ...]:
    """As even as possible; never an empty one, unless there is nothing at all."""
    files = max(1, min(count, records))
    shares = (shard_of(records, files, index) for index in range(files))
    return tuple(
        Partition(name=f"part-{share.index:05d}-of-{files:05d}.{ending}", first=share.offset, rows=share.records)
        for share in shares
    )


def _missing(plan: RunPlan, results: Sequence[ShardResult], partial: bool, at: At) -> Iterator[Problem]:
    count = plan.request.array_count
    missing = tuple(sorted(set(range(count)) - {one.shard for one in results}))
    if missing and not (partial and results):
        yield ShardsMissing(at=at, shards=missing, count=count)


def _differences(results: Sequence[ShardResult], at: At) -> Iterator[Problem]:
    """Names of columns and kinds of files, against the first shard; types are compared when the files are read."""
    for result in results:
        kinds = sorted({str(format_of(file.path)) for file in _tables(result.claim)})
        known = sorted({str(format_of(file.path)) for file in _tables(results[0].claim)})
        if len(kinds) > 1 or kinds != known:
            reason = f"its files are {' and '.join(kinds) or 'none'}, those before {' and '.join(known) or 'none'}"
            yield ColumnsDiffer(at=at, shard=result.shard, reason=reason)
        names = {column.name for column in result.claim.columns}
        wanted = {column.name for column in results[0].claim.columns}
        if names != wanted and known != ["jsonl"]:  # a claim tells the fields of the first record only
            yield ColumnsDiffer(at=at, shard=result.shard, reason=_column_words(names, wanted))


def _column_words(names: set[str], wanted: set[str]) -> str:
    lacks, more = sorted(wanted - names), sorted(names - wanted)
    return "; ".join(
        f"{words} {', '.join(map(repr, columns))}"
        for words, columns in (("it lacks the columns", lacks), ("it has the columns besides", more))
        if columns
    )


def _count(plan: RunPlan, records: int, at: At) -> Iterator[Problem]:
    wanted = plan.invocation.num_records
    if plan.output.require_exact_record_count and records != wanted:
        yield RecordCountDiffers(at=at, records=records, wanted=wanted)
