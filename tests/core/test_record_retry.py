"""Which shards are given to a new job, and what may never be."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.outcome import Outcome, problems_of
from core.plan.model import RunPlan
from core.record.cancel import living_jobs
from core.record.reconcile import reconcile
from core.record.retry import MOST_EXCLUDED, RetryAsked, RetryPlan, plan_retry, sick_nodes
from core.record.shard_state import Ended, NotSubmitted
from core.submit.records import Resume
from tests.core.plan_cases import planned
from tests.core.record_world import sightings
from tests.core.test_record_properties import RUNS

DAY = "2026-01-01T00"
PLAN: RunPlan = planned([{}], 8, array_tasks={"count": 6}).unwrap()
AUTO: RunPlan = planned([{}], 8, array_tasks={"count": 6}, on_time_limit={"resume": "auto"}).unwrap()
ALWAYS: RunPlan = planned(
    [{}], 8, array_tasks={"count": 6}, invocation={"num_records": 100, "resume": "always"}
).unwrap()


def row(task: str, state: str, minute: int = 1, nodes: str = "n7") -> str:
    when = f"{DAY}:{minute:02d}"
    return f"accounting 901|900_{task}|{state}|1:0|0:0|{when}:00|{when}:01|{when}:02|{nodes}\n"


def retry(text: str, plan: RunPlan = PLAN, **asked: object) -> Outcome[RetryPlan]:
    seen = sightings(text)
    return plan_retry(plan, seen, reconcile(seen), msgspec.convert(asked, RetryAsked), "/runs/r")


def codes(outcome: Outcome[RetryPlan]) -> list[str]:
    return [str(problem.__struct_config__.tag) for problem in problems_of(outcome)]


MIXED = (
    "shards 6\nwinner 0 1\nqueue 902|900|1|RUNNING|None|n1\n"
    + row("2", "FAILED")
    + row("3", "TIMEOUT")
    + row("4", "CANCELLED by 7")
    + row("5", "RUNNING")
)


def test_only_what_is_over_and_would_not_end_alike() -> None:
    plan = retry(MIXED).unwrap()
    assert plan.shards == (2, 4)
    assert plan.retry.reasons == (
        "shard 2: failed, the job ended with exit code 1, and its controller did not say why",
        "shard 4: cancelled, cancelled by user 7",
    )
    assert [(one.shard, one.why) for one in plan.passed] == [
        (1, "it is running"),
        (3, "its time limit would end it again: give --resume if_possible, or a longer --time-limit"),
        (5, "it is settling (accounting still says RUNNING)"),
    ]


@pytest.mark.parametrize(
    ("plan", "asked", "resume"),
    [
        (PLAN, {"resume": "if_possible"}, "if_possible"),
        (PLAN, {"time_limit": "9-00:00:00"}, "never"),
        (AUTO, {}, "if_possible"),
        (ALWAYS, {}, "always"),
    ],
)
def test_a_time_out_is_retried_with_resume_or_a_longer_limit(
    plan: RunPlan, asked: dict[str, str], resume: Resume
) -> None:
    found = retry("shards 1\n" + row("0", "TIMEOUT"), plan, **asked).unwrap()
    assert (found.shards, found.retry.resume) == ((0,), resume)


@pytest.mark.parametrize(
    ("plan", "asked"),
    [(PLAN, {}), (PLAN, {"time_limit": "00:00:01"}), (AUTO, {"resume": "never"}), (PLAN, {"time_limit": "long"})],
)
def test_a_time_out_is_not_retried_as_it_was(plan: RunPlan, asked: dict[str, str]) -> None:
    assert codes(retry("shards 1\n" + row("0", "TIMEOUT"), plan, **asked)) == ["nothing-to-retry"]


@pytest.mark.parametrize(
    ("shard", "code"),
    [
        (0, "shard-not-retried"),
        (1, "shard-not-retried"),
        (3, "shard-not-retried"),
        (5, "shard-not-retried"),
        (9, "unknown-name"),
    ],
)
def test_a_shard_by_number_that_cannot_be_had(shard: int, code: str) -> None:
    assert codes(retry(MIXED, shards=[shard])) == [code]
    assert codes(retry(MIXED, shards=[shard, 2])) == [code]
    assert retry(MIXED, shards=[2]).unwrap().shards == (2,)


def test_not_while_a_submission_is_unclear_or_the_queue_cannot_be_read() -> None:
    assert codes(retry("shards 2\n" + row("0", "FAILED") + "unclear 1")) == ["submission-unclear"]
    assert codes(retry("shards 1\nqueue! down\n" + row("0", "FAILED"))) == ["queue-unreadable"]
    assert codes(retry("shards 1\nwinner 0 1")) == ["nothing-to-retry"]


def test_a_node_that_failed_is_avoided_until_a_job_ends_well_there() -> None:
    text = "shards 3\n" + row("0", "NODE_FAIL", 5, "n[7-8]") + row("1", "NODE_FAIL", 9, "n9")
    assert retry(text).unwrap().retry.excluded == ("n9", "n8", "n7")
    assert sick_nodes(sightings(text + row("2", "COMPLETED", 4, "n7"))) == ("n9", "n8", "n7")
    assert sick_nodes(sightings(text + row("2", "COMPLETED", 6, "n[7,9]"))) == ("n9", "n8")
    assert sick_nodes(sightings("shards 1\naccounting! no\nqueue 901|900|0|NODE_FAIL|None|n3")) == ("n3",)
    many = "shards 1\n" + "".join(row("0", "NODE_FAIL", 5, f"m{number}") for number in range(50))
    assert len(sick_nodes(sightings(many))) == MOST_EXCLUDED


@given(
    RUNS, st.sampled_from([PLAN, AUTO, ALWAYS]), st.sampled_from([{}, {"resume": "if_possible"}, {"shards": [1, 2]}])
)
def test_never_two_at_once(text: str, plan: RunPlan, asked: dict[str, object]) -> None:
    seen = sightings(text)
    found = retry(text, plan, **asked)
    if not is_successful(found):
        assert problems_of(found)
        return
    chosen = found.unwrap().shards
    states = {status.shard: status.state for status in reconcile(seen)}
    assert chosen
    assert all(isinstance(states[shard], Ended | NotSubmitted) for shard in chosen)
    assert "unclear" not in text
    assert "queue!" not in text
    assert set(chosen) & {one.shard for one in found.unwrap().passed} == set()


def test_what_is_cancelled() -> None:
    text = "shards 2\njob 901 1\njob 902 0\nqueue 9|901|1|PENDING|Dependency|\nqueue 8|902|0|FAILED|None|n1"
    assert [job.job_id for job in living_jobs(sightings(text))] == ["901"]
    assert [job.job_id for job in living_jobs(sightings(f"{text}\nqueue! down"))] == ["900", "901", "902"]
    assert [job.job_id for job in living_jobs(sightings("shards 5\nqueue 900|900|3-...|PENDING|None|"))] == ["900"]
    assert living_jobs(sightings("shards 1")) == ()
