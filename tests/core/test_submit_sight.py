"""Looking for a job by its name: rows of the queue and the accounting, and what follows from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.submit.answer import CommandAnswer, CutShort, Finished, NotStarted
from core.submit.records import Job
from core.submit.resolve import Adopt, Conflict, Lost, Resolution, Wait, resolve
from core.submit.sight import Blind, Row, Seen, Sight, indices_of, look

NAME = "data-designer-reviews-1"


def fine(stdout: str) -> Finished:
    return Finished(code=0, stdout=stdout, stderr="")


def row(job_id: str, index: int | None, state: str = "PENDING", cluster: str | None = None) -> Row:
    return Row(job=Job(job_id=job_id, cluster=cluster), index=index, state=state)


def seen(queue: str, accounting: str = "") -> tuple[Row, ...]:
    sight = look(fine(queue), fine(accounting), NAME)
    assert isinstance(sight, Seen)
    return sight.rows


def test_a_single_job() -> None:
    assert seen(f"7|N/A|PENDING|{NAME}\n") == (row("7", None),)


def test_an_array_task_by_task() -> None:
    assert seen(f"1|2|PENDING|{NAME}\n1|0|RUNNING|{NAME}\n") == (row("1", 2), row("1", 0, "RUNNING"))


def test_an_array_as_a_range() -> None:
    assert seen(f"1|3-5%2|PENDING|{NAME}\n") == (row("1", 3), row("1", 4), row("1", 5))


def test_accounting_knows_what_has_left_the_queue() -> None:
    text = f"1_[2-3%2]|PENDING|{NAME}\n1_0|CANCELLED by 2001|{NAME}\n1_1|COMPLETED|{NAME}\n"
    assert seen("", text) == (row("1", 2), row("1", 3), row("1", 0, "CANCELLED"), row("1", 1, "COMPLETED"))


def test_the_same_in_both_counts_once() -> None:
    assert seen(f"7|N/A|PENDING|{NAME}\n", f"7|PENDING|{NAME}\n") == (row("7", None),)


def test_clusters_have_headers() -> None:
    text = f"CLUSTER: lion\n\nCLUSTER: tiger\n7|N/A|PENDING|{NAME}\n"
    assert seen(text) == (row("7", None, cluster="tiger"),)


def test_what_is_not_ours_is_passed_over() -> None:
    strange = (
        f"Welcome!\n8|N/A|PENDING|{NAME}0\n9|N/A|PENDING|x|{NAME}\n|||\nJOBID|K|STATE|{NAME}\n0|N/A|PENDING|{NAME}\n"
    )
    assert seen(strange, f"8|PENDING|other\n8.batch|RUNNING|{NAME}\n0|RUNNING|{NAME}\n") == ()


@pytest.mark.parametrize(
    "queue",
    [
        Finished(code=1, stdout="", stderr="slurm_load_jobs error: Unable to contact slurm controller"),
        Finished(code=1, stdout=f"7|N/A|PENDING|{NAME}\n", stderr=""),
        CutShort(after_s=60, stderr=""),
        NotStarted(reason="there is no command 'squeue' in the PATH"),
    ],
    ids=repr,
)
def test_an_error_is_not_an_empty_queue(queue: CommandAnswer) -> None:
    assert isinstance(look(queue, fine(f"7|PENDING|{NAME}\n"), NAME), Blind)


@pytest.mark.parametrize(
    "accounting",
    [None, NotStarted(reason="no sacct"), Finished(code=1, stdout="", stderr="Slurm accounting storage is disabled")],
    ids=repr,
)
def test_without_accounting_the_queue_suffices(accounting: CommandAnswer | None) -> None:
    assert look(fine(f"7|N/A|PENDING|{NAME}\n"), accounting, NAME) == Seen(rows=(row("7", None),))


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("3", (3,)),
        ("0,2-4", (0, 2, 3, 4)),
        ("0-8:4", (0, 4, 8)),
        ("5-7%2", (5, 6, 7)),
        ("3-...", ()),
        ("1,3-...", (1,)),
        ("4-2", ()),
        ("", ()),
        ("x", ()),
    ],
)
def test_indices(text: str, indices: tuple[int, ...]) -> None:
    assert tuple(indices_of(text)) == indices


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_at_all_can_be_read(queue: str, accounting: str) -> None:
    assert isinstance(look(fine(queue), fine(accounting), NAME), Seen)


SINGLE = Seen(rows=(row("7", None),))
PART = Seen(rows=(row("7", 0), row("7", 1)))
WHOLE = Seen(rows=(row("7", 0), row("7", 1), row("7", 2)))
TWO = Seen(rows=(row("7", None), row("8", None)))
ONE_CANCELLED = Seen(rows=(row("7", None, "CANCELLED"), row("8", None)))
BOTH_CANCELLED = Seen(rows=(row("8", None, "CANCELLED"), row("7", None, "CANCELLED")))
NONE = Seen(rows=())
BLIND = Blind(reason="squeue gave no answer")


@pytest.mark.parametrize(
    ("sight", "expected", "over", "resolution"),
    [
        (NONE, None, False, Wait(reason="no job of this name is known yet")),
        (NONE, None, True, Lost()),
        (SINGLE, None, False, Adopt(job=Job(job_id="7"))),
        (PART, (0, 1, 2), False, Wait(reason="1 of 3 tasks are not visible yet")),
        (PART, (0, 1, 2), True, Adopt(job=Job(job_id="7"), missing=(2,))),
        (WHOLE, (0, 1, 2), False, Adopt(job=Job(job_id="7"))),
        (TWO, None, False, Conflict(jobs=(Job(job_id="7"), Job(job_id="8")))),
        (TWO, None, True, Conflict(jobs=(Job(job_id="7"), Job(job_id="8")))),
        (ONE_CANCELLED, None, False, Adopt(job=Job(job_id="8"))),
        (BOTH_CANCELLED, None, False, Adopt(job=Job(job_id="8"))),
        (BLIND, None, False, Wait(reason="squeue gave no answer")),
        (BLIND, None, True, Wait(reason="squeue gave no answer")),
    ],
)
def test_what_follows(sight: Sight, expected: tuple[int, ...] | None, over: bool, resolution: Resolution) -> None:
    assert resolve(sight, expected, over) == resolution


def test_a_job_that_was_cancelled_before_it_was_found_is_ours_all_the_same() -> None:
    cancelled = Seen(rows=(row("7", None, "CANCELLED"),))
    assert resolve(cancelled, None, False) == Adopt(job=Job(job_id="7"))


def test_the_cluster_is_taken_from_the_row_that_has_it() -> None:
    both = Seen(rows=(row("7", None), row("7", None, cluster="tiger")))
    assert resolve(both, None, False) == Adopt(job=Job(job_id="7", cluster="tiger"))


ROWS = st.builds(
    row, st.sampled_from(["7", "8", "70"]), st.none() | st.integers(0, 3), st.sampled_from(["PENDING", "X"])
)
SIGHTS = st.builds(Seen, rows=st.lists(ROWS, max_size=5).map(tuple)) | st.just(BLIND)


@given(SIGHTS, st.none() | st.lists(st.integers(0, 3), unique=True, min_size=1).map(tuple), st.booleans())
def test_only_an_empty_queue_is_ever_called_lost(sight: Sight, expected: tuple[int, ...] | None, over: bool) -> None:
    found = resolve(sight, expected, over)
    empty = isinstance(sight, Seen) and not sight.rows
    assert isinstance(found, Lost) == (empty and over)
    if isinstance(found, Adopt):
        assert isinstance(sight, Seen)
        assert found.job.job_id in {row.job.job_id for row in sight.rows}
