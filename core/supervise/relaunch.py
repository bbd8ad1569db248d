"""Whether a unit that was lost is launched again, and what its loss means for the whole."""

from core.supervise.change import Move, alter, rule_of, with_unit
from core.supervise.effects import Explain
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.state import Ending, GivenUp, State, Stopping, Unit, Waiting
from core.supervise.verdict import Cause, RankExited, ServersFailed, lane_to_blame
from core.units import MonotonicMs

PORT_TAKEN = 75
"""EX_TEMPFAIL: a node worker found a planned port taken and launched nothing."""
MOST_DOUBLINGS = 5
"""The wait before a restart doubles with each restart of the unit, up to 32 times the configured one."""


def bury(plan: SupervisePlan, state: State, unit: Unit, cause: Cause, at: MonotonicMs) -> Move:
    """A unit whose processes are gone: launch it again if its rule allows, else give it up."""
    if isinstance(state.phase, Stopping):
        return with_unit(state, alter(unit, GivenUp(cause=cause))), ()
    after = launched_again(plan, unit, cause, at) or alter(unit, GivenUp(cause=cause))
    if after.port_retries > unit.port_retries:
        return with_unit(state, after), ()
    return with_unit(state, after), (Explain(step=unit.step, launch=unit.launch, lane=lane_to_blame(cause)),)


def launched_again(plan: SupervisePlan, unit: Unit, cause: Cause, at: MonotonicMs) -> Unit | None:
    """The unit with its next launch; None when its rule allows no more. A taken port is nobody's failure."""
    rule = rule_of(plan, unit.step)
    if port_taken(cause) and unit.port_retries < plan.port_retries:
        return alter(unit, Waiting(at=at, cause=cause), launch=unit.launch + 1, port_retries=1)
    if rule.policy == "restart" and unit.restarts < rule.max_restarts:
        again = MonotonicMs(at + rule.backoff_ms * 2 ** min(unit.restarts, MOST_DOUBLINGS))
        return alter(unit, Waiting(at=again, cause=cause), launch=unit.launch + 1, restarts=1)
    return None


def port_taken(cause: Cause) -> bool:
    """Whether a planned port was in use. Node workers say so; a server process means something else by this code."""
    return isinstance(cause, RankExited) and cause.code == PORT_TAKEN and cause.lane is None and not cause.serving


def too_few(plan: SupervisePlan, before: State, now: State) -> ServersFailed | None:
    """The verdict when a model can no longer have as many units as it needs, naming the one that was lost last.

    A unit that is lost for good counts at once, not only when its last process is gone: until then the client would
    work against nothing, and fail for a reason that is not its own.
    """
    earlier = {unit.step for unit in before.units if _cause_of_loss(plan, unit) is not None}
    for rule in plan.deployments:
        lost = [unit for unit in now.units if unit.step in rule.units and _cause_of_loss(plan, unit) is not None]
        if lost and len(rule.units) - len(lost) < rule.min_ready:
            return _verdict(plan, rule, next((unit for unit in lost if unit.step not in earlier), lost[-1]))
    return None


def _verdict(plan: SupervisePlan, rule: DeploymentRule, last: Unit) -> ServersFailed:
    cause = _cause_of_loss(plan, last)
    assert cause is not None
    return ServersFailed(alias=rule.alias, step=last.step, launch=last.launch, cause=cause)


def _cause_of_loss(plan: SupervisePlan, unit: Unit) -> Cause | None:
    match unit.life:
        case GivenUp(cause=cause):
            return cause
        case Ending(cause=cause, kill_at=kill_at) if launched_again(plan, unit, cause, kill_at) is None:
            return cause
        case _:
            return None
