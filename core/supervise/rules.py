"""From a bound plan to what the supervisor needs of it, and from its verdict to an exit code and a state."""

from typing import Literal, TypeAlias, assert_never

from core.config.durations import duration_ms
from core.plan.bound import BoundPlan
from core.plan.model import DeploymentPlan, RunPlan
from core.plan.steps import steps_of
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.supervise.verdict import (
    ClientFailed,
    ClientRefused,
    Completed,
    EndpointFailed,
    NotJudged,
    OutOfTime,
    ServersFailed,
    Stopped,
    Verdict,
)
from core.units import StepName

AttemptState: TypeAlias = Literal["COMPLETED", "FAILED", "INTERRUPTED"]
PROBE_EVERY_MS = 500
ENDPOINT_RESTARTS = 5
PORT_RETRIES = 5
PREPARE_TIMEOUT_MS = 600_000
"""Importing a large client from a cold shared file system takes minutes."""

JUDGE_TIMEOUT_MS = 1_800_000
"""Half an hour: 180 GB at the 100 MB/s of a slow shared file system. Servers wait meanwhile, so not for ever."""


def supervise_plan(plan: RunPlan, bound: BoundPlan, probe_every_ms: int = PROBE_EVERY_MS) -> SupervisePlan:
    """The rules of this attempt."""
    steps = steps_of(bound)
    return SupervisePlan(
        deployments=tuple(
            _rule(deployment, tuple(step.name for step in steps if step.alias == deployment.alias))
            for deployment in plan.deployments
        ),
        grace_ms=bound.grace_ms,
        probe_every_ms=probe_every_ms,
        endpoint_restarts=ENDPOINT_RESTARTS,
        port_retries=PORT_RETRIES,
        prepare_timeout_ms=PREPARE_TIMEOUT_MS,
        judge_timeout_ms=JUDGE_TIMEOUT_MS,
    )


def _rule(deployment: DeploymentPlan, units: tuple[str, ...]) -> DeploymentRule:
    """Without `min_ready_replicas`: all must stay with `fail`, one with `restart`, which is the wish to go on."""
    failure, server = deployment.on_failure, deployment.server
    default = len(units) if failure.policy == "fail" else 1
    return DeploymentRule(
        alias=deployment.alias,
        units=tuple(StepName(unit) for unit in units),
        startup_timeout_ms=server.startup_timeout_ms + server.standoff_ms,
        policy=failure.policy,
        max_restarts=failure.max_restarts,
        backoff_ms=duration_ms(failure.backoff),
        nodes_together=deployment.placement.parallel.nodes,
        min_ready=min(deployment.min_ready_replicas or default, len(units)),
    )


def exit_code(verdict: Verdict) -> int:
    """As in sysexits.h; 128 + n after a signal."""
    match verdict:
        case Completed():
            return 0
        case ClientRefused():
            return 78
        case ClientFailed(code=code):
            return 75 if code == 75 else 65
        case ServersFailed() | EndpointFailed():
            return 69
        case Stopped(exit_code=code):
            return code
        case OutOfTime() | NotJudged():
            return 75
        case _:
            assert_never(verdict)


def attempt_state(verdict: Verdict) -> AttemptState:
    """How the attempt is recorded."""
    match verdict:
        case Completed():
            return "COMPLETED"
        case Stopped() | OutOfTime():
            return "INTERRUPTED"
        case ClientRefused() | ClientFailed() | NotJudged() | ServersFailed() | EndpointFailed():
            return "FAILED"
        case _:
            assert_never(verdict)
