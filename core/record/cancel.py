"""Which jobs of a run are to be cancelled, and which are still there. By id only: names can be those of others."""

import msgspec

from core.record.rows import InQueue, QueueUnread
from core.record.sightings import Sightings
from core.slurm.job_state import phase
from core.submit.records import Job


class CancelSaid(msgspec.Struct, frozen=True, kw_only=True):
    """What `dd-slurm cancel --json` prints. `left` are jobs that are still in the queue, `failed` says why."""

    run_dir: str
    state: str
    cancelled: tuple[str, ...]
    left: tuple[str, ...]
    failed: tuple[str, ...]
    unclear: tuple[int, ...]
    exit_code: int
    message: str


def living_jobs(seen: Sightings) -> tuple[Job, ...]:
    """Jobs of the run that may still have something waiting or running; all, where the queue cannot be read."""
    jobs = dict.fromkeys(one.job for one in seen.submissions if one.job)
    if isinstance(seen.queue, QueueUnread):
        return tuple(jobs)
    living = _living(seen.queue)
    return tuple(job for job in jobs if job.job_id in living)


def _living(queue: InQueue) -> frozenset[str]:
    rows = {row.job_id for row in queue.rows if phase(row.state, in_queue=True) != "ended"}
    return frozenset(rows | set(queue.cut))


def cancel_said(
    run_dir: str, cancelled: tuple[Job, ...], left: tuple[Job, ...], failed: tuple[str, ...], unclear: tuple[int, ...]
) -> CancelSaid:
    """How it ended, in words: 0 when nothing of the run is in the queue, 75 when that is not so or not known."""
    ids = tuple(job.job_id for job in left)
    if left:
        state, code = "left", 75
        message = f"may still run: {', '.join(ids)}{f' ({failed[-1]})' if failed else ''}; call it again"
    elif unclear:
        state, code = "unclear", 75
        message = (
            f"submission {unclear[-1]} is not settled: a job of it may still come up, but held, so it never starts"
        )
    elif cancelled:
        state, code = "cancelled", 0
        message = f"cancelled, and gone: {', '.join(job.job_id for job in cancelled)}"
    else:
        state, code, message = "nothing", 0, "nothing of this run was in the queue"
    return CancelSaid(
        run_dir=run_dir,
        state=state,
        cancelled=tuple(job.job_id for job in cancelled),
        left=ids,
        failed=failed,
        unclear=unclear,
        exit_code=code,
        message=message,
    )
