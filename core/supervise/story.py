"""What happened, in sentences for people: derived from a state and the next one, so that nothing extra is kept."""

from collections.abc import Iterator
from signal import Signals
from typing import assert_never

from core.supervise.change import rule_of
from core.supervise.plan import SupervisePlan
from core.supervise.relaunch import port_taken
from core.supervise.state import (
    Booting,
    Client,
    Ending,
    Finished,
    GivenUp,
    Judging,
    Prepared,
    Ready,
    Rebinding,
    State,
    Stopping,
    Unit,
    Waiting,
    Working,
)
from core.supervise.verdict import (
    Cause,
    ClientFailed,
    ClientRefused,
    Completed,
    EndpointFailed,
    ForeignAnswered,
    NoPorts,
    NotJudged,
    NotReadyInTime,
    OutOfTime,
    RankExited,
    ServersFailed,
    Stopped,
    Stuck,
    Verdict,
)
from core.units import MonotonicMs


def tell(plan: SupervisePlan, before: State, after: State, at: MonotonicMs) -> tuple[str, ...]:
    """Sentences about everything that changed between two states."""
    return (
        *_units(plan, before, after, at),
        *_client(before, after),
        *_endpoints(before, after),
        *_phase(before, after),
    )


def _units(plan: SupervisePlan, before: State, after: State, at: MonotonicMs) -> Iterator[str]:
    stopping = isinstance(before.phase, Stopping)
    for old, new in zip(before.units, after.units, strict=True):
        if old != new:
            yield from _unit(plan, old, new, at, stopping)


def _unit(plan: SupervisePlan, old: Unit, new: Unit, at: MonotonicMs, stopping: bool) -> Iterator[str]:
    name = old.step if old.launch == 1 else f"{old.step} (launch {old.launch})"
    match new.life:
        case Ready() if isinstance(old.life, Booting):
            yield f"{name} is ready after {_seconds(at - old.life.since)}"
        case Ending(cause=cause) if isinstance(old.life, Booting | Ready) and not stopping:
            yield f"{name} failed{_after(old, at)}: {cause_words(cause)}; what is left of it is ended"
        case Waiting(at=due, cause=cause):
            if new.restarts == old.restarts:
                yield f"{name} found a planned port taken; it starts again with other ports"
                return
            gone = f"{name} is gone" if isinstance(old.life, Ending) else f"{name} failed{_after(old, at)}"
            why = "" if isinstance(old.life, Ending) else f": {cause_words(cause)}"
            count = f"restart {new.restarts} of {rule_of(plan, new.step).max_restarts}"
            yield f"{gone}{why}; it starts again in {_seconds(due - at)} ({count})"
        case GivenUp(cause=cause) if not stopping:
            yield f"{name} is given up{_after(old, at)}: {cause_words(cause)}"
        case Booting() if isinstance(old.life, Rebinding):
            yield f"{name} starts again with new ports"
        case _:
            return


def _after(old: Unit, at: MonotonicMs) -> str:
    match old.life:
        case Ready(since=since):
            return f" after {_seconds(at - since)} of serving"
        case Booting(since=since):
            return f" {_seconds(at - since)} after its start"
        case _:
            return ""


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"


def _client(before: State, after: State) -> Iterator[str]:
    if isinstance(before.client, Judging) and before.client.hurry is None:
        yield from _hurried(after.client)
    if type(before.client) is type(after.client):
        return
    match after.client:
        case Prepared():
            yield "the client is prepared and waits for servers"
        case Working():
            yield "the client works"
        case Judging(code=code):
            yield f"the client ended ({exit_words(code)}); its result is looked at"
        case _:
            return


def _hurried(client: Client) -> Iterator[str]:
    if isinstance(client, Judging) and client.hurry:
        yield f"{verdict_words(client.hurry.otherwise)}; the result is still looked at, but not for long"


def _endpoints(before: State, after: State) -> Iterator[str]:
    for old, new in zip(before.endpoints, after.endpoints, strict=True):
        if new.launch > old.launch:
            yield f"the endpoint of {old.alias} ended and is started again"


def _phase(before: State, after: State) -> Iterator[str]:
    if isinstance(after.phase, Stopping) and not isinstance(before.phase, Stopping):
        yield f"ending: {verdict_words(after.phase.verdict)}"
        yield from _details(after.phase.verdict)
    elif isinstance(after.phase, Finished) and not isinstance(before.phase, Stopping | Finished):
        yield f"ended: {verdict_words(after.phase.verdict)}"
    if isinstance(after.phase, Stopping) and isinstance(before.phase, Stopping):
        return
    if isinstance(after.phase, Finished) and isinstance(before.phase, Stopping):
        yield "everything has ended"


def _details(verdict: Verdict) -> Iterator[str]:
    """Problems of a config, each on a line of its own when there are several."""
    if isinstance(verdict, ClientRefused) and len(verdict.reasons) > 1:
        yield from (f"  {reason}" for reason in verdict.reasons)


def exit_words(code: int) -> str:
    """An exit code for people: a signal has a name."""
    if code >= 0:
        return f"exit code {code}"
    known = {number.value: number.name for number in Signals}
    name = f" ({known[-code]})" if -code in known else ""
    return f"killed by signal {-code}{name}"


def cause_words(cause: Cause) -> str:
    """Why a unit was lost."""
    match cause:
        case RankExited(node=node) if port_taken(cause):
            return f"a planned port{f' on node {node}' if node else ''} is taken"
        case RankExited(code=code, node=node, serving=serving, lane=lane):
            what = f"the process {lane}" if lane else "the node worker" if node else "the whole step"
            how = f"was {exit_words(code)}" if code < 0 else f"ended with {exit_words(code)}"
            place = f" on node {node}" if node else ""
            return f"{what}{place} {how} while {'serving' if serving else 'starting'}"
        case NotReadyInTime(after_ms=after, nodes_together=1):
            return f"not ready within {_seconds(after)}"
        case NotReadyInTime(after_ms=after, nodes_together=nodes):
            doubt = (
                f"its processes on {nodes} nodes may not have met (rendezvous): see network.interface of the profile"
            )
            return f"not ready within {_seconds(after)}; {doubt}, and their logs"
        case ForeignAnswered(found=found, wanted=wanted):
            return f"another server answers at its address: {', '.join(found)} instead of {', '.join(wanted)}"
        case Stuck():
            return "requests run but no token comes"
        case NoPorts(reasons=reasons):
            return f"no ports for it: {'; '.join(reasons)}"
        case _:
            assert_never(cause)


def verdict_words(verdict: Verdict) -> str:
    """How the attempt ended."""
    match verdict:
        case Completed():
            return "the result is complete"
        case ClientRefused(reasons=(reason,)):
            return f"the client refused its work: {reason}"
        case ClientRefused(reasons=reasons):
            return f"the client refused its work: {len(reasons)} problems"
        case ClientFailed(code=code, reasons=reasons):
            return f"the client failed ({exit_words(code)}): {'; '.join(reasons) or 'no reason given'}"
        case NotJudged(after_ms=after):
            return f"whether the client's result is valid could not be found out within {_seconds(after)}"
        case ServersFailed(alias=alias, step=step, launch=launch, cause=cause):
            return f"too few servers of {alias} are left; last lost: {step}, launch {launch}: {cause_words(cause)}"
        case EndpointFailed(alias=alias, code=code):
            return f"the endpoint of {alias} ended too often ({exit_words(code)})"
        case Stopped(reason=reason):
            return f"stopped by {reason}"
        case OutOfTime():
            return "the time limit of the job is near"
        case _:
            assert_never(verdict)
