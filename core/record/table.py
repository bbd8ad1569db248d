"""The table of `dd-slurm status`: shards that are alike share a line, so that it stays short in runs of thousands."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from core.record.words import ShardSaid
from core.slurm.hostnames import compress_hostlist

LONGEST_CELL = 60
STORIES = 3
"""How many failed shards are told in full; the rest is in the JSON."""


class StatusSaid(msgspec.Struct, frozen=True, kw_only=True):
    """What `dd-slurm status --json` prints. `over` says that nothing will change by itself."""

    run_id: str
    run_dir: str
    over: bool
    complete: bool
    records_done: int
    records_wanted: int
    shards: tuple[ShardSaid, ...]
    caveats: tuple[str, ...]
    next_steps: tuple[str, ...]


def status_said(
    run_id: str, run_dir: str, shards: tuple[ShardSaid, ...], caveats: tuple[str, ...], others: tuple[str, ...] = ()
) -> StatusSaid:
    """The whole answer. `others` are further things to do."""
    moving = {"pending", "running", "ending", "settling", "unknown"}
    complete = all(one.state == "completed" for one in shards)
    following = (f"dd-slurm merge {run_dir} --output DIR",) if complete else (one.next for one in shards if one.next)
    return StatusSaid(
        run_id=run_id,
        run_dir=run_dir,
        over=not any(one.state in moving for one in shards),
        complete=complete,
        records_done=sum(one.records_done for one in shards),
        records_wanted=sum(one.records_wanted for one in shards),
        shards=shards,
        caveats=caveats,
        next_steps=tuple(dict.fromkeys((*following, *others))),
    )


def table(said: StatusSaid) -> str:
    """For people."""
    counts = Counter(one.state for one in said.shards)
    summary = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    records = f"{said.records_done} of {said.records_wanted} records"
    lines = [
        f"run {said.run_id}: {records}; {len(said.shards)} shards: {summary}",
        *(f"note: {caveat}" for caveat in said.caveats),
        *_columns([("SHARD", "STATE", "ATTEMPTS", "RECORDS", "JOB", "WHERE", "WHY"), *_rows(said.shards)]),
        *_stories(said.shards),
    ]
    if said.next_steps:
        lines += ["next:", *(f"  {step}" for step in said.next_steps)]
    return "\n".join(lines) + "\n"


def _rows(shards: Sequence[ShardSaid]) -> Iterator[tuple[str, ...]]:
    for _, group in groupby(shards, key=_likeness):
        alike = list(group)
        first = alike[0]
        done, wanted = sum(one.records_done for one in alike), sum(one.records_wanted for one in alike)
        jobs = list(dict.fromkeys((one.job or "").partition("_")[0] for one in alike))
        job = (first.job or "") if len(alike) == 1 else jobs[0]
        yield (
            str(first.shard) if len(alike) == 1 else f"{first.shard}-{alike[-1].shard}",
            first.state,
            str(first.attempts),
            f"{done}/{wanted}",
            job,
            first.where,
            first.why,
        )


def _likeness(one: ShardSaid) -> tuple[object, ...]:
    """Shards that may share a line: those which still wait, or are done, alike. What runs or failed has its own."""
    if one.state in ("completed", "pending", "not-submitted", "unclear", "unknown"):
        return (one.state, one.attempts, (one.job or "").partition("_")[0], one.where, one.why)
    return (one.shard,)


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    cut = [tuple(_cut(cell) for cell in row[:-1]) + row[-1:] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cut, strict=True)]
    for row in cut:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…"


def _stories(shards: Sequence[ShardSaid]) -> Iterator[str]:
    told = [one for one in shards if one.said]
    for one in told[:STORIES]:
        yield f"shard {one.shard}, the end of its last attempt:"
        yield from (f"  {line}" for line in one.said)
    if len(told) > STORIES:
        rest = compress_hostlist(str(one.shard) for one in told[STORIES:]).strip("[]")
        yield f"likewise: shards {rest} (--json tells them)"
