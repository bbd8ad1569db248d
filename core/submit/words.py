"""How a submission ended, in words and as an exit code of sysexits.h."""

import re
import shlex
from typing import assert_never

import msgspec

from core.submit import state as s
from core.submit.records import Absent, Job, NotAccepted, Refused

EX_OK, EX_UNAVAILABLE, EX_TEMPFAIL, EX_CONFIG = 0, 69, 75, 78


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is a stable word for programs, `next_steps` is what to do now."""

    exit_code: int
    state: str
    message: str
    next_steps: tuple[str, ...]


def tell(end: s.End, run_dir: str, logs: str) -> Told:
    """What a user reads after `dd-slurm submit`."""
    again = f"dd-slurm submit {shlex.quote(run_dir)}"
    match end:
        case s.Queued(submitted=submitted):
            return _queued(submitted.job, submitted.how == "found", run_dir, logs)
        case s.StillHeld(submitted=submitted, reason=reason):
            message = f"job {submitted.job.job_id} is in the queue, but held: it could not be released: {reason}"
            return _told(EX_TEMPFAIL, "held", message, f"{again}    # releases it")
        case s.StillUnclear(reason=reason, looking=looking):
            message = f"it is not known whether Slurm has the job: {reason}; looking for it: {looking}"
            return _told(EX_TEMPFAIL, "unclear", message, f"{again}    # looks for the job by its name")
        case s.Conflicting(jobs=jobs):
            return _conflict(jobs, again)
        case s.Withdrawn(job=job, reason=reason):
            return _withdrawn(job, reason, again)
        case s.NotSubmitted(receipt=receipt):
            return _not_submitted(receipt, again)
        case _:
            assert_never(end)


def progress(state: s.State) -> str | None:
    """What a user who waits reads when looking or trying again begins; None for the rest."""
    match state:
        case s.Looking(reason=reason, clear_since=None):
            return f"{reason}; looking for the job by its name"
        case s.Releasing(tried=tried) if tried:
            return f"the job could not be released; trying again ({tried})"
        case _:
            return None


def _told(exit_code: int, state: str, message: str, *next_steps: str) -> Told:
    return Told(exit_code=exit_code, state=state, message=message, next_steps=next_steps)


def _queued(job: Job, found: bool, run_dir: str, logs: str) -> Told:
    how = " (the answer of sbatch was lost; the job was found by its name)" if found else ""
    where = f"-M {job.cluster} " if job.cluster else ""
    return _told(
        EX_OK,
        "submitted",
        f"submitted job {job.job_id}{f' on cluster {job.cluster}' if job.cluster else ''}{how}",
        f"squeue {where}-j {job.job_id}    # where it stands",
        f"tail -n +1 {shlex.quote(logs)}/slurm-*    # what it says, once it has started",
        f"ls {shlex.quote(run_dir)}/shards/*/winner.json    # the results that are complete",
        f"scancel {where}{job.job_id}    # ends it in order",
    )


def _conflict(jobs: tuple[Job, ...], again: str) -> Told:
    ids = [job.job_id for job in jobs]
    return _told(
        EX_TEMPFAIL,
        "conflict",
        f"{len(ids)} jobs have the name of this submission: {', '.join(ids)}; none was released",
        f"scancel {' '.join(ids[1:])}    # keep one",
        f"{again}    # takes up the one that is left",
    )


def _withdrawn(job: Job, reason: str | None, again: str) -> Told:
    if reason is not None:
        message = f"job {job.job_id} is not wanted any more, but could not be cancelled: {reason}; it stays held"
        return _told(EX_TEMPFAIL, "withdrawn", message, f"scancel {job.job_id}")
    message = f"job {job.job_id} was cancelled before it started: another dd-slurm had given up this submission"
    return _told(EX_TEMPFAIL, "withdrawn", message, f"{again}    # submits it anew")


def _not_submitted(receipt: Refused | NotAccepted | Absent, again: str) -> Told:
    match receipt:
        case Refused(reason=reason):
            return _told(EX_CONFIG, "refused", f"Slurm refuses the job: {reason}", hint_of(reason))
        case NotAccepted(reason=reason, cause="unreachable"):
            message = f"Slurm cannot be reached, nothing was submitted: {reason}"
            return _told(EX_UNAVAILABLE, "not-accepted", message, f"{again}    # when it is back")
        case NotAccepted(reason=reason):
            message = f"Slurm takes no job at present, nothing was submitted: {reason}"
            return _told(EX_TEMPFAIL, "not-accepted", message, f"{again}    # later")
        case Absent(reason=reason):
            message = f"there is no job: {reason}, and none of its name came up"
            return _told(EX_TEMPFAIL, "absent", message, f"{again}    # submits it anew")


_HINTS = (
    (
        "qos policy|limits|limit exceeded",
        "ask for less (nodes, array tasks, time), or wait for your other jobs",
    ),
    ("account", "set submission.account of the run file or scheduler.account of the profile"),
    ("time limit", "lower submission.time_limit to what the partition allows"),
    ("gres|generic resource", "check gpus_per_node and gpu_request_mode of the profile against sinfo -o '%N %G'"),
    ("array", "lower array_tasks.count; scontrol show config says MaxArraySize"),
    ("qos", "ask the site which QOS the account may use"),
    ("node count|node configuration|processors|memory", "ask for what the nodes have: nodes, GPUs, client.cpus"),
    ("partition", "set submission.partition of the run file or scheduler.partition of the profile; sinfo lists them"),
)


def hint_of(reason: str) -> str:
    """One thing to do about a refusal."""
    found = next((hint for pattern, hint in _HINTS if re.search(pattern, reason, re.IGNORECASE)), None)
    return found or "mend the run file or the profile, then submit it again"
