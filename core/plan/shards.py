"""How records are split over array tasks."""

import msgspec


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A run of consecutive records: `offset` is the index of the first one in the whole dataset."""

    index: int
    offset: int
    records: int


def shard_of(records: int, count: int, index: int) -> Shard:
    """Shard `index` of `count`: as even as possible, the first ones larger by one, none empty if count <= records."""
    each, rest = divmod(records, count)
    return Shard(index=index, offset=index * each + min(index, rest), records=each + 1 if index < rest else each)
