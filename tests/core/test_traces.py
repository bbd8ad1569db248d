"""Stories of the supervisor, reviewable by people: tests/traces/*.txt. Accept a change only when you understand it."""

from pathlib import Path

import pytest

from core.supervise.events import EndpointExited, ServerForeign
from core.units import Alias, MonotonicMs, StepName
from tests.conftest import Golden
from tests.core.retell import read_event, retell

STORIES = sorted((Path(__file__).parents[1] / "traces").glob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_story(story: Path, golden: Golden) -> None:
    golden(story, retell(story.read_text()))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_story_comes_to_an_end_and_says_what_it_is_about(story: Path) -> None:
    lines = story.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert any(line.startswith("    = finished ") for line in lines)


def test_events_are_read_with_all_their_fields() -> None:
    at = MonotonicMs(7)
    assert read_event(at, ["server-foreign", "writer-0#2", "a|b", "c"]) == ServerForeign(
        at=at, step=StepName("writer-0"), launch=2, found=("a", "b"), wanted=("c",)
    )
    assert read_event(at, ["endpoint-exited", "writer#1", "-9"]) == EndpointExited(
        at=at, alias=Alias("writer"), launch=1, code=-9
    )


def test_a_timer_that_nobody_set_is_refused() -> None:
    with pytest.raises(AssertionError, match="5ms timer-fired"):
        retell("model writer\n0ms begin\n5ms timer-fired\n")
