"""A shard's state in words: one stable word for programs, why, and what to do next."""

from typing import Literal, TypeAlias, assert_never

import msgspec

from core.record.rows import NoAccounting, QueueUnread
from core.record.shard_state import (
    Alive,
    Ended,
    EndKind,
    NotSubmitted,
    Settling,
    ShardState,
    ShardStatus,
    Unclear,
    Unknown,
    Won,
)
from core.record.sightings import Sightings

StateWord: TypeAlias = (
    Literal["completed", "pending", "running", "ending", "stuck", "settling", "not-submitted", "unclear", "unknown"]
    | EndKind
)


class ShardSaid(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `dd-slurm status`, and one element of its JSON. `where` are nodes, as a host list."""

    shard: int
    state: StateWord
    attempts: int
    records_done: int
    records_wanted: int
    job: str | None
    where: str
    why: str
    next: str
    said: tuple[str, ...]


def say(status: ShardStatus, run_dir: str) -> ShardSaid:
    """In words."""
    word, job, where, why, following = _words(status.state, run_dir)
    done = status.records_wanted if isinstance(status.state, Won) else status.records_done
    return ShardSaid(
        shard=status.shard,
        state=word,
        attempts=status.attempts,
        records_done=done,
        records_wanted=status.records_wanted,
        job=job,
        where=where,
        why=why,
        next=following,
        said=status.said if isinstance(status.state, Ended) else (),
    )


def _words(state: ShardState, run_dir: str) -> tuple[StateWord, str | None, str, str, str]:
    """State, job, nodes, why, what to do."""
    match state:
        case Won(attempt=attempt, alive=alive):
            again = f"; job {alive.name} still runs and changes nothing" if alive else ""
            return "completed", alive.name if alive else None, "", f"attempt {attempt} won{again}", ""
        case Alive():
            return _alive(state, run_dir)
        case Settling(task=task, why=why, left_ms=left_ms):
            return "settling", task.name, "", why, f"look again, within {left_ms // 1000 + 1} s it is settled"
        case Ended(end=end, task=task, why=why, nodes=nodes):
            return end, task.name, nodes, why, advice(end, run_dir)
        case NotSubmitted(why=why):
            return "not-submitted", None, "", why, f"dd-slurm submit {run_dir}"
        case Unclear(submission=number):
            why = f"it is not known whether Slurm has the job of submission {number}"
            return "unclear", None, "", why, f"dd-slurm submit {run_dir}"
        case Unknown(why=why):
            return "unknown", None, "", why, "look again"
        case _:
            assert_never(state)


def _alive(state: Alive, run_dir: str) -> tuple[StateWord, str | None, str, str, str]:
    reason = "" if state.reason in ("None", "") else state.reason
    why = " ".join(part for part in (state.state if state.phase in ("ending", "stuck") else "", reason) if part)
    following = _unstick(state, run_dir) if state.phase == "stuck" else ""
    return state.phase, state.task.name, state.nodes, why, following


def _unstick(state: Alive, run_dir: str) -> str:
    reason = state.reason.lower()
    if "launch" in reason:
        return f"its launch failed and Slurm holds it: look at the nodes, then scontrol release {state.task.name}"
    if reason == "jobhelduser" or state.state == "REQUEUE_HOLD":
        return f"dd-slurm submit {run_dir}    # or scontrol release {state.task.name}"
    if "held" in reason:
        return "an administrator holds it: ask the site"
    if "dependency" in reason:
        return f"it waits for a job that will not come: dd-slurm cancel {run_dir}, then retry"
    if state.state in ("SUSPENDED", "STOPPED"):
        return f"scontrol resume {state.task.name}"
    return f"it will not start by itself: scontrol show job {state.task.name}"


def advice(end: EndKind, run_dir: str) -> str:
    """What to do about a shard that is over."""
    retry = f"dd-slurm retry {run_dir}"
    match end:
        case "timeout" | "out-of-time":
            return f"{retry} --resume if_possible    # or a longer --time-limit"
        case "out-of-memory":
            return "a retry alone ends alike: give more memory (mem_per_gpu, client.cpus) in a new run"
        case "node-fail" | "boot-fail":
            return f"{retry}    # avoids the node"
        case "failed" | "no-result":
            return f"mend what it says, then {retry}"
        case "cancelled" | "preempted" | "interrupted" | "lost" | "deadline" | "revoked":
            return retry
        case _:
            assert_never(end)


def caveats(seen: Sightings) -> tuple[str, ...]:
    """What this look could not see."""
    said = []
    if isinstance(seen.queue, QueueUnread):
        said.append(f"the queue cannot be read, so what runs is not known: {seen.queue.reason}")
    if isinstance(seen.accounting, NoAccounting) and any(one.job for one in seen.submissions):
        said.append(f"no accounting ({seen.accounting.reason}): the ends of jobs are taken from the run folder alone")
    for one in seen.submissions:
        if one.state == "held":
            said.append(f"submission {one.number} is held until it is taken up with dd-slurm submit")
        if one.state == "unclear":
            said.append(f"submission {one.number} is not settled: dd-slurm submit settles it")
    return tuple(said)
