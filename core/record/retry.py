"""Which shards go to a new job, and how. Never one that is alive, won, or of which that is not known.

A shard that ran into its time limit would do so again, so it is given a new job only if that goes on with what there
is, or has longer. Nodes that failed are avoided, a bounded number of them, until a job of the run has ended well there.
"""

from collections.abc import Iterator, Sequence

import msgspec
from returns.pipeline import is_successful

from core.outcome import Outcome, unless
from core.plan.model import RunPlan
from core.problem import At, NothingToRetry, Problem, QueueUnreadable, ShardNotRetried, SubmissionUnclear, UnknownName
from core.record.rows import Accounted, InQueue, QueueUnread
from core.record.shard_state import Ended, NotSubmitted, ShardStatus, Won
from core.record.sightings import Sightings
from core.record.words import say
from core.slurm.hostnames import expand_hostlist
from core.slurm.scontrol import parse_duration_s
from core.submit.records import Resume, Retry
from core.units import NodeName

MOST_EXCLUDED = 16
_FAILED_NODE = frozenset({"NODE_FAIL", "BOOT_FAIL"})


class RetryAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says. `shards` None: all that need it. `resume` and `time_limit` None: as planned."""

    shards: tuple[int, ...] | None = None
    resume: Resume | None = None
    time_limit: str | None = None


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """A shard without a result that is left out."""

    shard: int
    why: str


class RetryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The new submission."""

    shards: tuple[int, ...]
    retry: Retry
    passed: tuple[Passed, ...]


def plan_retry(
    plan: RunPlan, seen: Sightings, statuses: Sequence[ShardStatus], asked: RetryAsked, run_dir: str
) -> Outcome[RetryPlan]:
    """Errors: `SubmissionUnclear`, `QueueUnreadable`, `UnknownName`, `ShardNotRetried`, `NothingToRetry`."""
    at = At(source=run_dir)
    wanted = [one for one in statuses if asked.shards is None or one.shard in asked.shards]
    against = {one.shard: _objection(plan, one, asked, run_dir) for one in wanted if not isinstance(one.state, Won)}
    chosen = [one for one in wanted if one.shard in against and against[one.shard] is None]
    passed = tuple(Passed(shard=shard, why=why) for shard, why in against.items() if why is not None)
    problems = [*_general(seen, at), *_unfit(statuses, asked, passed, at)]
    if not chosen and not problems:
        problems.append(NothingToRetry(at=at, passed=tuple(f"shard {one.shard}: {one.why}" for one in passed)))
    retry = Retry(
        reasons=tuple(f"shard {one.shard}: {_reason(one, run_dir)}" for one in chosen),
        resume=_resume(plan, asked),
        excluded=sick_nodes(seen),
        time_limit=asked.time_limit,
    )
    return unless(problems, RetryPlan(shards=tuple(one.shard for one in chosen), retry=retry, passed=passed))


def _reason(status: ShardStatus, run_dir: str) -> str:
    said = say(status, run_dir)
    return f"{said.state}, {said.why}"


def _general(seen: Sightings, at: At) -> Iterator[Problem]:
    yield from (SubmissionUnclear(at=at, number=one.number) for one in seen.submissions if one.state == "unclear")
    if isinstance(seen.queue, QueueUnread):
        yield QueueUnreadable(at=at, reason=seen.queue.reason)


def _unfit(statuses: Sequence[ShardStatus], asked: RetryAsked, passed: Sequence[Passed], at: At) -> Iterator[Problem]:
    """Shards that were asked for by number and cannot be had."""
    if asked.shards is None:
        return
    known = {one.shard: one for one in statuses}
    why_not = {one.shard: one.why for one in passed}
    for shard in asked.shards:
        if shard not in known:
            names = tuple(map(str, known))
            yield UnknownName(at=at, what="shard", value=str(shard), known=names, suggestion=None)
        elif isinstance(known[shard].state, Won):
            yield ShardNotRetried(at=at, shard=shard, reason="it has its result")
        elif shard in why_not:
            yield ShardNotRetried(at=at, shard=shard, reason=why_not[shard])


def _objection(plan: RunPlan, status: ShardStatus, asked: RetryAsked, run_dir: str) -> str | None:
    """Why a shard without a result gets no new job now."""
    match status.state:
        case NotSubmitted():
            return None
        case Ended(end="timeout" | "out-of-time") if not _goes_further(plan, asked):
            return "its time limit would end it again: give --resume if_possible, or a longer --time-limit"
        case Ended():
            return None
        case _:
            said = say(status, run_dir)
            return f"it is {said.state}{f' ({said.why})' if said.why else ''}"


def _resume(plan: RunPlan, asked: RetryAsked) -> Resume:
    """What was asked for, else as planned; who lets jobs go on after the time limit wants that after retries too."""
    if asked.resume is not None or plan.invocation.resume != "never":
        return asked.resume or plan.invocation.resume
    return "if_possible" if plan.on_time_limit.resume == "auto" else "never"


def _goes_further(plan: RunPlan, asked: RetryAsked) -> bool:
    """Whether a new job gets beyond where the time limit ended the last one."""
    if _resume(plan, asked) != "never":
        return True
    longer = parse_duration_s(asked.time_limit or "")
    return longer is not None and longer > (parse_duration_s(plan.request.time_limit) or 0)


def sick_nodes(seen: Sightings) -> tuple[NodeName, ...]:
    """Nodes of jobs of the run that a failing node ended, newest first; forgotten where a later job ended well."""
    failed: dict[NodeName, str] = {}
    well: dict[NodeName, str] = {}
    for state, end, nodes in sorted(_ends(seen), key=lambda one: one[1]):
        for node in _names(nodes):
            if state in _FAILED_NODE:
                failed.pop(node, None)
                failed[node] = end
            elif state == "COMPLETED":
                well[node] = end
    sick = [node for node, end in reversed(failed.items()) if well.get(node, "") <= end]
    return tuple(sick[:MOST_EXCLUDED])


def _ends(seen: Sightings) -> Iterator[tuple[str, str, str]]:
    """State, time and nodes. What only the queue tells is the newest."""
    if isinstance(seen.accounting, Accounted):
        yield from ((row.state, row.end, row.nodes) for row in seen.accounting.rows)
    elif isinstance(seen.queue, InQueue):
        yield from ((row.state, "", row.nodes) for row in seen.queue.rows)


def _names(nodes: str) -> tuple[NodeName, ...]:
    expanded = expand_hostlist(nodes, At(source="accounting"))
    return expanded.unwrap() if is_successful(expanded) else ()
