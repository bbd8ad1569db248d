"""What is seen of a run: its files, and its jobs in the queue and in the accounting."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from core.record.rows import Accounting, Queue
from core.submit.records import Job

SubmissionState: TypeAlias = Literal["submitted", "held", "unclear", "refused", "not-accepted", "absent"]


class AttemptSeen(msgspec.Struct, frozen=True, kw_only=True):
    """`attempt.json`. `state` is RUNNING until it has ended, also when it was killed. `cause` is the kind of verdict.

    `job_id` is what the job called itself, of a task of an array not the common id. `said` ends its story.
    """

    number: int
    job_id: str
    nodes: tuple[str, ...]
    state: str
    started_unix_ms: int
    ended_unix_ms: int | None
    exit_code: int | None
    cause: str | None
    records: int
    said: tuple[str, ...]


class ShardSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a shard. `winner` is the number of the attempt whose result counts."""

    shard: int
    records_wanted: int
    winner: int | None
    attempts: tuple[AttemptSeen, ...]


class SubmissionSeen(msgspec.Struct, frozen=True, kw_only=True):
    """`intent.json` and what followed. `shards` is None for a job that is no array; `job` is None without a receipt."""

    number: int
    state: SubmissionState
    job: Job | None
    job_name: str
    shards: tuple[int, ...] | None
    created_unix_ms: int

    def covers(self, shard: int) -> bool:
        """Whether the submission holds a task for the shard."""
        return self.shards is None or shard in self.shards


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a task, such as ``41_2``, has been missing in the queue, by a clock that never jumps."""

    task: str
    for_ms: int


class Sightings(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, from one look."""

    shards: tuple[ShardSeen, ...]
    submissions: tuple[SubmissionSeen, ...]
    queue: Queue
    accounting: Accounting
    absences: tuple[Absence, ...] = ()


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a shard in a submission that Slurm has."""

    submission: int
    job: Job
    index: int | None

    @property
    def name(self) -> str:
        """As Slurm's commands take it: ``41`` or ``41_2``."""
        return self.job.job_id if self.index is None else f"{self.job.job_id}_{self.index}"


def tasks_of(shard: int, submissions: Sequence[SubmissionSeen]) -> tuple[Task, ...]:
    """Where Slurm has been given the shard, oldest first."""
    return tuple(
        Task(submission=one.number, job=one.job, index=None if one.shards is None else shard)
        for one in submissions
        if one.job is not None and one.covers(shard)
    )
