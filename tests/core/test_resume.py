"""When an attempt goes on with what an earlier one has left, and when another job goes on after it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.plan.model import RunPlan
from core.resume import MOST_FOLLOW_UPS, Earlier, TakeOver, follow_up, taken_over
from tests.core.test_submit_request import plan as plan_of_run

EARLIER = st.builds(
    Earlier,
    number=st.integers(1, 9),
    state=st.sampled_from(["INTERRUPTED", "FAILED", "COMPLETED", "RUNNING"]),
    out_of_time=st.booleans(),
    has_output=st.booleans(),
    records=st.integers(0, 5),
)


def plan(resume: str = "never", on_time_limit: str = "manual") -> RunPlan:
    made = plan_of_run()
    return msgspec.structs.replace(
        made,
        invocation=msgspec.structs.replace(made.invocation, resume=resume),
        on_time_limit=msgspec.structs.replace(made.on_time_limit, resume=on_time_limit),
    )


def attempt(number: int, **different: Any) -> Earlier:
    usual: dict[str, Any] = {"state": "INTERRUPTED", "out_of_time": True, "has_output": True, "records": number}
    return Earlier(number=number, **(usual | different))


@pytest.mark.parametrize("resume", ["always", "if_possible"])
@pytest.mark.parametrize("state", ["INTERRUPTED", "FAILED", "RUNNING"])
def test_the_newest_output_is_gone_on_with_when_resume_says_so(resume: Any, state: str) -> None:
    earlier = (attempt(1), attempt(3, state=state), attempt(2))
    assert taken_over(plan(resume), earlier) == TakeOver(number=3, mode=resume)


def test_an_attempt_without_output_is_passed_over() -> None:
    earlier = (attempt(1), attempt(2, has_output=False))
    assert taken_over(plan("if_possible"), earlier) == TakeOver(number=1, mode="if_possible")


@pytest.mark.parametrize(("state", "goes_on"), [("INTERRUPTED", True), ("RUNNING", True), ("FAILED", False)])
def test_never_and_auto_goes_on_after_what_was_not_a_failure(state: str, goes_on: bool) -> None:
    chosen = taken_over(plan("never", "auto"), (attempt(1, state=state),))
    assert chosen == (TakeOver(number=1, mode="if_possible") if goes_on else None)


def test_never_begins_anew() -> None:
    assert taken_over(plan("never"), (attempt(1),)) is None


@given(st.lists(EARLIER), st.sampled_from(["never", "always", "if_possible"]), st.sampled_from(["auto", "manual"]))
def test_what_is_taken_over_has_output_and_is_not_complete(earlier: list[Earlier], resume: str, auto: str) -> None:
    chosen = taken_over(plan(resume, auto), earlier)
    if chosen is not None:
        assert any(one.number == chosen.number and one.has_output for one in earlier)
        assert (resume, auto) != ("never", "manual")


def test_follow_ups_are_counted_and_bounded() -> None:
    attempts = tuple(attempt(number) for number in range(1, MOST_FOLLOW_UPS + 2))
    assert follow_up(plan(on_time_limit="auto"), attempts[:1]) == 1
    assert follow_up(plan(on_time_limit="auto"), attempts[:-1]) == MOST_FOLLOW_UPS
    said = follow_up(plan(on_time_limit="auto"), attempts)
    assert isinstance(said, str)
    assert str(MOST_FOLLOW_UPS) in said


def test_no_follow_up_when_nothing_was_made() -> None:
    said = follow_up(plan(on_time_limit="auto"), (attempt(1, records=4), attempt(2, records=4)))
    assert isinstance(said, str)
    assert "no record was made" in said


def test_no_follow_up_unless_asked_for() -> None:
    assert follow_up(plan(), (attempt(1),)) is None
