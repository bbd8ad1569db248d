"""The policy of submission: stories to read, and what may never happen however things interleave."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.codec import compact_json
from core.submit import state as s
from core.submit.answer import Unclear
from core.submit.records import Absent, Job, NotAccepted, Receipt, Refused, Submitted
from core.submit.sight import Blind, Row, Seen
from core.submit.step import begin, step
from core.submit.words import tell
from core.units import MonotonicMs
from tests.conftest import Golden
from tests.core.submit_story import plan_for, retell
from tests.core.submit_world import World

STORIES = sorted((Path(__file__).parents[1] / "submit_stories").glob("*.txt"))
SINGLE = plan_for(1)


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_story(story: Path, golden: Golden) -> None:
    golden(story, retell(story.read_text()))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_story_comes_to_an_end_and_says_what_it_is_about(story: Path) -> None:
    lines = story.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert lines[-1].startswith("    exit ")


JOBS = st.sampled_from(["7", "8"]).map(lambda number: Job(job_id=number))
REASONS = st.sampled_from(["a reason"])
SUBMITTED = st.builds(Submitted, job=JOBS, how=st.sampled_from(["answered", "found"]))
NOT_ACCEPTED = st.builds(NotAccepted, reason=REASONS, cause=st.sampled_from(["unreachable", "busy"]))
RECEIPTS: st.SearchStrategy[Receipt] = (
    SUBMITTED | st.builds(Refused, reason=REASONS) | NOT_ACCEPTED | st.builds(Absent, reason=REASONS)
)
ANSWERS = st.builds(Unclear, reason=REASONS) | RECEIPTS.filter(lambda receipt: not isinstance(receipt, Absent))
ROWS = st.builds(Row, job=JOBS, index=st.none(), state=st.sampled_from(["PENDING", "CANCELLED"]))
SIGHTS = st.builds(Blind, reason=REASONS) | st.builds(Seen, rows=st.lists(ROWS, max_size=3).map(tuple))
TIMES = st.integers(0, 400_000).map(MonotonicMs)
EVENTS: st.SearchStrategy[s.Event] = (
    st.builds(s.Answered, at=TIMES, answer=ANSWERS)
    | st.builds(s.Looked, at=TIMES, sight=SIGHTS)
    | st.builds(s.Stands, at=TIMES, receipt=RECEIPTS)
    | st.builds(s.Released, at=TIMES, reason=st.none() | REASONS)
    | st.builds(s.Cancelled, at=TIMES, reason=st.none() | REASONS)
    | st.builds(s.TimerFired, at=TIMES)
)
STARTS: st.SearchStrategy[s.Start] = (
    st.just(s.Fresh()) | st.just(s.LeftUnclear()) | st.builds(s.Settled, receipt=RECEIPTS, released=st.booleans())
)


@given(STARTS, st.lists(EVENTS, max_size=25))
def test_any_history_at_all_keeps_the_promises(start: s.Start, history: list[s.Event]) -> None:
    state, effects = begin(start, MonotonicMs(0))
    asked = sum(isinstance(effect, s.Ask) for effect in effects)
    standing = start.receipt if isinstance(start, s.Settled) else None
    for event in sorted(history, key=lambda event: event.at):
        before, (state, effects) = state, step(SINGLE, state, event)
        asked += sum(isinstance(effect, s.Ask) for effect in effects)
        if isinstance(before, s.Recording) and isinstance(event, s.Stands):
            standing = event.receipt
        released = {effect.job for effect in effects if isinstance(effect, s.Release | s.MarkReleased)}
        assert released <= ({standing.job} if isinstance(standing, Submitted) else set()), (
            "only what stands is released"
        )
        cancelled = {effect.job for effect in effects if isinstance(effect, s.Cancel)}
        assert not (isinstance(standing, Submitted) and standing.job in cancelled), "what stands is never cancelled"
        assert isinstance(state, s.Ended) or before == state or effects, "who waits waits for something"
        if isinstance(before, s.Ended):
            assert (state, effects) == (before, ()), "the end is the end"
        if isinstance(state, s.Ended):
            assert (tell(state.end, "/r", "/l").exit_code == 0) == isinstance(state.end, s.Queued)
        assert msgspec.json.decode(compact_json(state), type=s.State) == state
    assert asked == isinstance(start, s.Fresh), "sbatch is asked once, by who made the intent"


@settings(max_examples=100)
@given(st.data())
def test_rivals_crashes_and_lost_answers_never_start_two_jobs(data: st.DataObject) -> None:
    world = World()
    for _ in range(data.draw(st.integers(1, 20))):
        move = data.draw(st.sampled_from(world.moves()))
        move()
        assert len(world.started()) <= 1, "of one run one job starts"
        assert world.started() <= world.standing(), "a job starts only after its receipt stands"
    world.let_everybody_finish()
    assert len(world.started()) == 1, "and in the end one does"
    assert world.unfinished() <= world.started(), "every other job is gone"
