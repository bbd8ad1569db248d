"""What a shard can be in. Only `Ended` and `NotSubmitted` may be given to a new job."""

from typing import Literal, TypeAlias

import msgspec

from core.record.sightings import Task

EndKind: TypeAlias = Literal[
    "failed",
    "no-result",
    "interrupted",
    "out-of-time",
    "timeout",
    "cancelled",
    "node-fail",
    "out-of-memory",
    "preempted",
    "deadline",
    "boot-fail",
    "revoked",
    "lost",
]
AliveKind: TypeAlias = Literal["pending", "running", "ending", "stuck"]


class Won(msgspec.Struct, frozen=True, kw_only=True, tag="won", tag_field="kind"):
    """It has its result. `alive` is a task that still runs nevertheless."""

    attempt: int
    alive: Task | None


class Alive(msgspec.Struct, frozen=True, kw_only=True, tag="alive", tag_field="kind"):
    """Slurm has it in the queue. `state` and `reason` are Slurm's words; `nodes` is a host list."""

    phase: AliveKind
    task: Task
    state: str
    reason: str
    nodes: str


class Settling(msgspec.Struct, frozen=True, kw_only=True, tag="settling", tag_field="kind"):
    """It has left the queue, and what became of it is about to show. `left_ms` until that is given up."""

    task: Task
    why: str
    left_ms: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="kind"):
    """It is over without a result. `nodes` is a host list, where it ran last."""

    end: EndKind
    task: Task
    why: str
    nodes: str


class NotSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag="not-submitted", tag_field="kind"):
    """Slurm does not have it and never had."""

    why: str


class Unclear(msgspec.Struct, frozen=True, kw_only=True, tag="unclear", tag_field="kind"):
    """A submission that holds it is not settled: there may be a job."""

    submission: int


class Unknown(msgspec.Struct, frozen=True, kw_only=True, tag="unknown", tag_field="kind"):
    """What could be seen does not say whether it still runs."""

    why: str


ShardState: TypeAlias = Won | Alive | Settling | Ended | NotSubmitted | Unclear | Unknown


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One shard, judged. `records_done` are of the attempt that got furthest; `said` ends the last one's story."""

    shard: int
    state: ShardState
    attempts: int
    records_done: int
    records_wanted: int
    said: tuple[str, ...]
