"""Generated plans and events for the laws of the supervisor."""

from hypothesis import strategies as st

from core.plan.task import FirstEnd
from core.supervise.events import (
    ClientExited,
    ClientIsPrepared,
    ClientRefuses,
    EndpointExited,
    EndpointListening,
    Event,
    RebindRefused,
    Rebound,
    ResultChecked,
    ServerExited,
    ServerForeign,
    ServerReady,
    ServerStalled,
    StopAsked,
    TaskExited,
    TimeLimitNear,
    TimerFired,
)
from core.supervise.plan import DeploymentRule, SupervisePlan
from core.units import Alias, MonotonicMs, NodeName, StepName

STRANGER = "stranger"
CODES = st.sampled_from([0, 1, 75, 143, -9])
FIRST = st.none() | st.builds(FirstEnd, lane=st.just("lane"), node=st.just(NodeName("node-b")), code=CODES)
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@st.composite
def rules(draw: st.DrawFn, alias: str, size: int) -> DeploymentRule:
    return DeploymentRule(
        alias=Alias(alias),
        units=tuple(StepName(f"{alias}-{number}") for number in range(size)),
        startup_timeout_ms=draw(st.sampled_from([300, 1000])),
        policy=draw(st.sampled_from(["fail", "restart"])),
        max_restarts=draw(st.integers(0, 2)),
        backoff_ms=draw(st.sampled_from([1, 200])),
        min_ready=draw(st.integers(1, size)),
        nodes_together=draw(st.integers(1, 2)),
    )


@st.composite
def plans(draw: st.DrawFn) -> SupervisePlan:
    sizes = draw(SIZES)
    return SupervisePlan(
        deployments=tuple(draw(rules(f"model{number}", size)) for number, size in enumerate(sizes)),
        grace_ms=50,
        probe_every_ms=draw(st.sampled_from([20, 100])),
        endpoint_restarts=draw(st.integers(0, 2)),
        port_retries=draw(st.integers(0, 2)),
        prepare_timeout_ms=draw(st.sampled_from([150, 2000])),
        judge_timeout_ms=draw(st.sampled_from([40, 2000])),
    )


def events(plan: SupervisePlan) -> st.SearchStrategy[Event]:
    """Any event: of this plan's units, of launches that are not there, of strangers; later ones may be earlier."""
    at = st.integers(0, 3000).map(MonotonicMs)
    step = st.sampled_from([*(unit for rule in plan.deployments for unit in rule.units), StepName(STRANGER)])
    alias = st.sampled_from([*(rule.alias for rule in plan.deployments), Alias(STRANGER)])
    launch = st.sampled_from([1, 1, 1, 2, 3])
    reasons = st.sampled_from([(), ("broken",)])
    of_unit = {"at": at, "step": step, "launch": launch}
    end = {"at": at, "alias": alias, "launch": launch}
    return st.one_of(
        st.builds(TaskExited, **of_unit, node=st.just(NodeName("node-a")), code=CODES, first=FIRST),
        st.builds(ServerExited, **of_unit, code=CODES, first=FIRST),
        st.builds(ServerReady, **of_unit),
        st.builds(ServerReady, **of_unit),
        st.builds(ServerForeign, **of_unit, found=st.just(("a",)), wanted=st.just(("b",))),
        st.builds(ServerStalled, **of_unit),
        st.builds(Rebound, **of_unit),
        st.builds(RebindRefused, **of_unit, reasons=reasons),
        st.builds(EndpointListening, **end),
        st.builds(EndpointListening, **end),
        st.builds(EndpointExited, **end, code=CODES),
        st.builds(ClientIsPrepared, at=at),
        st.builds(ClientRefuses, at=at, reasons=reasons),
        st.builds(ClientExited, at=at, code=CODES),
        st.builds(ResultChecked, at=at, reasons=reasons),
        st.builds(StopAsked, at=at, reason=st.just("SIGTERM"), exit_code=st.just(143)),
        st.builds(TimeLimitNear, at=at),
        st.builds(TimerFired, at=at),
        st.builds(TimerFired, at=at),
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[SupervisePlan, list[Event]]:
    """A plan and what happens to it. Half of the histories begin with a client that works (nearly), or has ended."""
    plan = draw(plans())
    happened: list[Event] = []
    if draw(st.booleans()):
        ready = draw(st.permutations(under_way(plan)))
        happened += ready[: len(ready) - draw(st.sampled_from([0, 0, 1]))]
        happened += draw(st.sampled_from([[], [], [ClientExited(at=MonotonicMs(20), code=0)]]))
    return plan, [*happened, *draw(st.lists(events(plan), max_size=25))]


def under_way(plan: SupervisePlan) -> list[Event]:
    """The events after which the client works."""
    at = MonotonicMs(10)
    return [
        ClientIsPrepared(at=at),
        *(EndpointListening(at=at, alias=rule.alias, launch=1) for rule in plan.deployments),
        *(ServerReady(at=at, step=unit, launch=1) for rule in plan.deployments for unit in rule.units),
    ]
