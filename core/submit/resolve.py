"""What follows from looking for the job of an unclear submission.

Names of jobs are unique, so what is found by name, user and time is ours. Nothing found means *wait*, until nothing has
been found for long enough; an array that is visible in part is waited for; of two jobs of one name none is chosen,
unless a person has cancelled the other one.
"""

from collections.abc import Sequence
from typing import TypeAlias, assert_never

import msgspec

from core.submit.records import Job
from core.submit.sight import Blind, Row, Seen, Sight


class Wait(msgspec.Struct, frozen=True, kw_only=True, tag="wait", tag_field="kind"):
    """Look again."""

    reason: str


class Adopt(msgspec.Struct, frozen=True, kw_only=True, tag="adopt", tag_field="kind"):
    """This job is ours. `missing` are tasks of its array that did not become visible in time."""

    job: Job
    missing: tuple[int, ...] = ()


class Conflict(msgspec.Struct, frozen=True, kw_only=True, tag="conflict", tag_field="kind"):
    """Several jobs have the name."""

    jobs: tuple[Job, ...]


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag="lost", tag_field="kind"):
    """There is none."""


Resolution: TypeAlias = Wait | Adopt | Conflict | Lost


def resolve(sight: Sight, expected: Sequence[int] | None, patience_is_over: bool) -> Resolution:
    """One look, judged. `expected` are the indices of the array, None for a single job."""
    match sight:
        case Blind(reason=reason):
            return Wait(reason=reason)
        case Seen(rows=rows):
            return _judge(rows, expected, patience_is_over)
        case _:
            assert_never(sight)


def _judge(rows: Sequence[Row], expected: Sequence[int] | None, patience_is_over: bool) -> Resolution:
    known = {row.job.job_id for row in rows}
    alive = {row.job.job_id for row in rows if not row.state.startswith("CANCELLED")}
    ids = sorted(alive, key=int) or sorted(known, key=int)[-1:]
    if not ids:
        return Lost() if patience_is_over else Wait(reason="no job of this name is known yet")
    jobs = tuple(_named(job_id, rows) for job_id in ids)
    if len(jobs) > 1:
        return Conflict(jobs=jobs)
    missing = tuple(sorted(set(expected or ()) - {row.index for row in rows}))
    if missing and not patience_is_over:
        return Wait(reason=f"{len(missing)} of {len(expected or ())} tasks are not visible yet")
    return Adopt(job=jobs[0], missing=missing)


def _named(job_id: str, rows: Sequence[Row]) -> Job:
    """With its cluster, where one of the rows says it: accounting does not."""
    clusters = [row.job.cluster for row in rows if row.job.job_id == job_id and row.job.cluster]
    return Job(job_id=job_id, cluster=clusters[0] if clusters else None)
