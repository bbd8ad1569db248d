"""Which seed rows a shard uses; written against an undivided run that reads rows in order, again and again."""

from hypothesis import example, given
from hypothesis import strategies as st

from core.plan.shards import Shard, shard_of
from core.seed_rows import RowRange, rows_for

RUNS = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n), st.integers(1, 60)))


def shards(records: int, count: int) -> list[Shard]:
    return [shard_of(records, count, index) for index in range(count)]


def used(shard: Shard, count: int, total: int, size: int, *, ordered: bool) -> list[int]:
    """The rows that Data Designer reads for a shard: its range from the start, and again when it is used up."""
    rows = rows_for(shard, count, total, RowRange(start=0, end=size - 1), ordered=ordered)
    return [rows.start + record % rows.size for record in range(shard.records)]


@given(RUNS)
def test_all_ranges_are_inside_the_selection(run: tuple[int, int, int]) -> None:
    records, count, size = run
    for ordered in (True, False):
        for shard in shards(records, count):
            rows = rows_for(shard, count, records, RowRange(start=7, end=7 + size - 1), ordered=ordered)
            assert 7 <= rows.start <= rows.end < 7 + size


@given(RUNS)
def test_enough_rows_in_order_are_used_as_one_undivided_run_would(run: tuple[int, int, int]) -> None:
    records, count, more = run
    size = records + more - 1
    together = [row for shard in shards(records, count) for row in used(shard, count, records, size, ordered=True)]
    assert together == list(range(records))


@given(RUNS)
@example((8, 6, 1))
def test_no_two_shards_share_a_row_when_there_are_as_many_rows_as_shards(run: tuple[int, int, int]) -> None:
    records, count, more = run
    size = count + more - 1
    for ordered in (True, False):
        sets = [set(used(shard, count, records, size, ordered=ordered)) for shard in shards(records, count)]
        assert sum(map(len, sets)) == len(set().union(*sets))


@given(RUNS)
def test_rows_are_used_about_equally_often(run: tuple[int, int, int]) -> None:
    records, count, size = run
    for ordered in (True, False):
        times = [0] * size
        for shard in shards(records, count):
            for row in used(shard, count, records, size, ordered=ordered):
                times[row] += 1
        fair = records / size
        assert max(times) <= 2 * fair + 2


def test_a_shuffled_shard_has_a_block_of_its_own_to_draw_from() -> None:
    first, second = shards(4, 2)
    selected = RowRange(start=0, end=99)
    assert rows_for(first, 2, 4, selected, ordered=False) == RowRange(start=0, end=49)
    assert rows_for(second, 2, 4, selected, ordered=False) == RowRange(start=50, end=99)
