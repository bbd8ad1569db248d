"""Which rows of a seed dataset belong to a shard, so that no two shards use the same ones unless they must.

Rule 1. Rows are read in order and suffice for all records: shard by shard, exactly the rows that one undivided run
would give to the same records.
Rule 2. Otherwise (too few rows, or shuffled) each shard has its own block of neighbouring rows: one, and of the
others as many as its part of the records; it goes through its block as often as it needs. Every row is used about
equally often.
Rule 3. With fewer rows than shards some blocks must be the same row; they are as far apart as possible.
"""

import msgspec

from core.plan.shards import Shard


class RowRange(msgspec.Struct, frozen=True, kw_only=True):
    """Rows `start` to `end`, both included, counted from 0."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many rows."""
        return self.end - self.start + 1


def rows_for(shard: Shard, shard_count: int, total_records: int, selected: RowRange, *, ordered: bool) -> RowRange:
    """The rows of `shard` among those that the author `selected`."""
    if ordered and total_records <= selected.size:
        first = selected.start + shard.offset
        return RowRange(start=first, end=first + shard.records - 1)
    if selected.size < shard_count:
        row = selected.start + shard.offset * selected.size // total_records
        return RowRange(start=row, end=row)
    others = selected.size - shard_count
    start = shard.index + shard.offset * others // total_records
    after = shard.index + 1 + (shard.offset + shard.records) * others // total_records
    return RowRange(start=selected.start + start, end=selected.start + after - 1)
