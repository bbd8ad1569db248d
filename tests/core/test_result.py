import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.problem import ClaimMissing, FileDiffers, NotUnique, Problem, RowsUnknown, TooFewRecords
from core.report import report
from core.result import Claim, ClaimedColumn, ClaimedFile, ObservedFile, is_inside, judge

DIGEST = "a" * 64
FILES = (
    ClaimedFile(path="reviews/parquet-files/batch_00000.parquet", bytes=10, sha256=DIGEST, rows=30),
    ClaimedFile(path="reviews/parquet-files/batch_00001.parquet", bytes=11, sha256=DIGEST, rows=18),
    ClaimedFile(path="reviews/metadata.json", bytes=12, sha256=DIGEST, rows=None),
)
CLAIM = Claim(
    files=FILES,
    columns=(ClaimedColumn(name="text", type="string"),),
    records=48,
    records_wanted=48,
    resumed="never",
    made_with="data-designer 1.2.3",
)
SEEN = tuple(ObservedFile(path=file.path, bytes=file.bytes, sha256=file.sha256) for file in FILES)


def kinds(claim: Claim | None, seen: tuple[ObservedFile, ...] = SEEN, wanted: int = 48) -> list[type[Problem]]:
    problems = judge(claim, seen, wanted)
    assert all(report(problem).message for problem in problems)
    return [type(problem) for problem in problems]


def changed(claim: Claim, **fields: object) -> Claim:
    return msgspec.structs.replace(claim, **fields)


def test_a_true_and_complete_claim_counts() -> None:
    assert judge(CLAIM, SEEN, 48) == ()


def test_files_that_nobody_claims_do_no_harm() -> None:
    remains = ObservedFile(path="reviews_old/batch_00000.parquet", bytes=3, sha256="b" * 64)
    assert judge(CLAIM, (*SEEN, remains), 48) == ()


def test_more_records_than_wanted_are_fine() -> None:
    assert judge(CLAIM, SEEN, 40) == ()


def test_exit_zero_without_a_claim_is_a_failure() -> None:
    assert kinds(None) == [ClaimMissing]


def test_a_missing_file_is_named() -> None:
    problems = judge(CLAIM, SEEN[1:], 48)
    assert [(p.file, p.what) for p in problems if isinstance(p, FileDiffers)] == [(FILES[0].path, "existence")]


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (ObservedFile(path=FILES[0].path, bytes=9, sha256=DIGEST), "size"),
        (ObservedFile(path=FILES[0].path, bytes=10, sha256="b" * 64), "digest"),
    ],
)
def test_a_file_with_other_content_is_named(seen: ObservedFile, what: str) -> None:
    problems = judge(CLAIM, (seen, *SEEN[1:]), 48)
    assert [(p.file, p.what) for p in problems if isinstance(p, FileDiffers)] == [(FILES[0].path, what)]


def test_fewer_records_than_wanted_are_a_failure() -> None:
    assert kinds(CLAIM, wanted=49) == [TooFewRecords]


def test_the_total_must_be_the_sum_of_the_files() -> None:
    assert kinds(changed(CLAIM, records=50), wanted=48) == [FileDiffers]
    assert kinds(changed(CLAIM, records=50), wanted=50) == [FileDiffers, TooFewRecords]


def test_a_result_without_countable_rows_is_a_failure() -> None:
    uncounted = tuple(msgspec.structs.replace(file, rows=None) for file in FILES)
    assert kinds(changed(CLAIM, files=uncounted)) == [RowsUnknown]
    assert kinds(changed(CLAIM, files=())) == [RowsUnknown]


def test_a_file_that_is_claimed_twice_does_not_count_twice() -> None:
    assert NotUnique in kinds(changed(CLAIM, files=(*FILES, FILES[0]), records=78), wanted=60)


@pytest.mark.parametrize("path", ["../batch.parquet", "/etc/passwd", "a//b", "a/./b", "", "a/../../b", "a\x00b"])
def test_a_claim_cannot_point_outside_the_output_folder(path: str) -> None:
    outside = ClaimedFile(path=path, bytes=10, sha256=DIGEST, rows=48)
    seen = (ObservedFile(path=path, bytes=10, sha256=DIGEST),)
    assert kinds(changed(CLAIM, files=(outside,)), seen) == [FileDiffers]


@given(st.lists(st.sampled_from(["a", "b.parquet", "c d", "..b", "é"]), min_size=1))
def test_plain_relative_paths_are_inside(parts: list[str]) -> None:
    assert is_inside("/".join(parts))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 4) | st.none()), max_size=5),
    st.integers(1, 12),
)
def test_whatever_is_accepted_has_enough_rows_in_files_that_are_there(
    files: list[tuple[int, int, int | None]], wanted: int
) -> None:
    claimed = tuple(ClaimedFile(path=f"{name}.csv", bytes=size, sha256=DIGEST, rows=rows) for name, size, rows in files)
    total = sum(file.rows or 0 for file in claimed)
    claim = changed(CLAIM, files=claimed, records=total)
    seen = tuple(ObservedFile(path=f"{name}.csv", bytes=name % 4, sha256=DIGEST) for name in range(5))
    accepted = judge(claim, seen, wanted) == ()
    there = {(file.path, file.bytes) for file in seen}
    counts = len({file.path for file in claimed}) == len(claimed) and all((f.path, f.bytes) in there for f in claimed)
    assert accepted == (counts and total >= wanted and any(file.rows is not None for file in claimed))
