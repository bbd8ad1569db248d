"""What may never be said of a shard, whatever a run folder and Slurm's commands hold."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core.codec import compact_json
from core.record.reconcile import missing_tasks, reconcile
from core.record.rows import read_accounting, read_queue
from core.record.shard_state import Alive, Ended, NotSubmitted, Settling, ShardStatus, Unknown, Won
from core.record.words import ShardSaid, caveats, say
from core.slurm.job_state import ALIVE, ENDED, ENDED_WHEN_GONE
from core.submit.answer import Finished
from tests.core.record_world import sightings

WORDS = st.sampled_from(sorted(ENDED | ALIVE | ENDED_WHEN_GONE | {"NEW_WORD", "CANCELLED by 7", "CANCELLED+"}))
TASKS = st.sampled_from(["0", "1", "2", "0-1", "0-2%1", "2,0", "1-..."])
MOMENTS = st.integers(10, 59).map(lambda minute: f"2026-01-01T00:{minute}:00")
QUEUE = st.builds(lambda task, word: f"queue 901|900|{task}|{word}|None|n1", TASKS, WORDS)
ACCOUNTS = st.builds(
    lambda task, word, code, at: f"accounting 901|900_{task}|{word}|{code}:0|0:0|{at}|{at}|Unknown|n1",
    st.sampled_from(["0", "1", "2", "[0-2%1]"]),
    WORDS,
    st.integers(0, 2),
    MOMENTS,
)
ATTEMPTS = st.builds(
    lambda shard, number, state: f"attempt {shard} {number} 901 {state} 3",
    st.integers(0, 2),
    st.integers(1, 3),
    st.sampled_from(["RUNNING", "FAILED", "COMPLETED", "INTERRUPTED"]),
)
OTHERS = st.sampled_from(
    ["winner 0 1", "winner 1 2", "job 902 2", "unclear 1", "refused 0 1", "held 903 1", "queue! no", "accounting! no"]
)
ABSENT = st.builds(lambda task, s: f"absent 900_{task} {s}", st.integers(0, 2), st.sampled_from([0, 150, 400]))
RUNS = st.lists(QUEUE | ACCOUNTS | ATTEMPTS | OTHERS | ABSENT, max_size=9).map(
    lambda lines: "\n".join(["shards 3", *lines])
)


@given(RUNS)
def test_laws(text: str) -> None:
    seen = sightings(text)
    statuses = reconcile(seen)
    assert [status.shard for status in statuses] == [0, 1, 2]
    unread = any(line.startswith("queue!") for line in text.splitlines())
    for status in statuses:
        won = f"winner {status.shard} " in text
        assert isinstance(status.state, Won) == won, "a winner decides"
        if isinstance(status.state, Ended | NotSubmitted | Settling | Alive):
            assert not (unread and not isinstance(status.state, NotSubmitted)), "blind is blind"
        if isinstance(status.state, Ended):
            assert not unread
            assert f"unclear {status.shard}" not in text, "an unsettled submission may be alive"
        if isinstance(status.state, Settling):
            assert 0 < status.state.left_ms <= 300_000
        assert msgspec.json.decode(compact_json(status), type=ShardStatus) == status
        said = say(status, "/r")
        assert msgspec.json.decode(compact_json(said), type=ShardSaid) == said
        assert said.next or isinstance(status.state, Won | Alive), "people are told what to do"
    assert all(caveats(seen))


@given(RUNS, st.sampled_from(sorted(ALIVE | ENDED_WHEN_GONE | {"NEW_WORD"})))
def test_what_is_in_the_queue_is_never_over(text: str, state: str) -> None:
    """Also words that nobody knows yet."""
    lines = [line for line in text.splitlines() if not line.startswith(("queue", "winner", "job", "held"))]
    statuses = reconcile(sightings("\n".join([*lines, f"queue 901|900|0-2|{state}|None|n1"])))
    assert not [status for status in statuses if isinstance(status.state, Ended | NotSubmitted | Settling)]


@given(RUNS)
def test_time_ends_waiting(text: str) -> None:
    """Five minutes after the last of it was seen nothing is waited for any more."""
    lines = [line for line in text.splitlines() if not line.startswith("absent")]
    late = [f"absent {task} 301" for task in missing_tasks(sightings(text))]
    statuses = reconcile(sightings("\n".join([*lines, *late])))
    assert not [status for status in statuses if isinstance(status.state, Settling)]


@given(RUNS)
def test_seeing_more_never_unmakes_a_winner(text: str) -> None:
    statuses = reconcile(sightings(f"{text}\nwinner 2 1"))
    assert isinstance(statuses[2].state, Won)


@given(st.text(max_size=200), st.integers(0, 1))
def test_any_output_at_all_is_read(text: str, code: int) -> None:
    answer = Finished(code=code, stdout=text, stderr=text)
    names = {"1": "x", "2": ""}
    assert read_queue([answer], names) == read_queue([answer], names)
    assert read_accounting([answer], names) == read_accounting([answer], names)


def test_the_laws_would_notice() -> None:
    """A queue that cannot be read makes everything unknown, not over."""
    text = "shards 3\nqueue! no\naccounting 901|900_0|FAILED|1:0|0:0|a|b|c|n1"
    assert {type(status.state) for status in reconcile(sightings(text))} == {Unknown}
