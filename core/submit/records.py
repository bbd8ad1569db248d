"""What is written down about one submission, so that it can be taken up again after any crash.

The rule that everything rests on: a job is submitted *held*, and released only when its receipt stands. The receipt is
created exclusively, once. So whatever is lost, killed or done twice, at most one job of an intent ever starts:

* `intent.json` is there before sbatch is asked. Whoever created it asks, once; everybody else only looks.
* `receipt.json` says how it ended: submitted, refused, not accepted, or absent. The first one stands.
* `released.json` is there when the job has been let go.
"""

from typing import Literal, TypeAlias

import msgspec

Resume: TypeAlias = Literal["never", "always", "if_possible"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job of Slurm; of an array, its common id. `cluster` is given where sbatch was asked for several."""

    job_id: str
    cluster: str | None = None


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """What is different in a submission of shards that failed before. `reasons` say why, shard by shard.

    `resume` is how its attempts take up what earlier ones have made; the controller reads it here. `time_limit` is None
    for that of the plan.
    """

    reasons: tuple[str, ...]
    resume: Resume
    excluded: tuple[str, ...]
    time_limit: str | None


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """`intent.json`: what is about to be submitted. `indices` are the shards; None for a job that is no array."""

    run_id: str
    number: int
    job_name: str
    user_id: int
    host: str
    indices: tuple[int, ...] | None
    plan_sha256: str
    script_sha256: str
    created_unix_ms: int
    retry: Retry | None = None


class Submitted(msgspec.Struct, frozen=True, kw_only=True, tag="submitted", tag_field="kind"):
    """Slurm has the job: sbatch said so, or it was found by its name."""

    job: Job
    how: Literal["answered", "found"]


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused", tag_field="kind"):
    """Slurm will not take this job, however often it is asked."""

    reason: str


class NotAccepted(msgspec.Struct, frozen=True, kw_only=True, tag="not-accepted", tag_field="kind"):
    """Slurm does not have the job: it could not be reached, or takes none at present."""

    reason: str
    cause: Literal["unreachable", "busy"]


class Absent(msgspec.Struct, frozen=True, kw_only=True, tag="absent", tag_field="kind"):
    """The answer was lost and no job of this name came up. Should one come up later, it stays held."""

    reason: str


Receipt: TypeAlias = Submitted | Refused | NotAccepted | Absent


class ReceiptFile(msgspec.Struct, frozen=True, kw_only=True):
    """`receipt.json`."""

    receipt: Receipt
    written_unix_ms: int


class ReleaseFile(msgspec.Struct, frozen=True, kw_only=True):
    """`released.json`."""

    job: Job
    written_unix_ms: int
