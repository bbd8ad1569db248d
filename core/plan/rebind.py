"""New ports and a new identity for the replicas of one step that is launched again; everything else stays."""

from collections.abc import Sequence

import msgspec
from returns.pipeline import is_successful

from core.outcome import Outcome, unless
from core.plan.bind import identity, node_ports
from core.plan.bound import BoundDeployment, BoundPlan, Lane, Replica, Serving
from core.plan.facts import NodeFacts
from core.plan.model import RunPlan
from core.plan.process_env import INTERNAL_PORTS
from core.plan.steps import Step
from core.problem import At, FactsMissing, Problem
from core.units import Port


def rebind(plan: RunPlan, bound: BoundPlan, step: Step, launch: int, facts: Sequence[NodeFacts]) -> Outcome[BoundPlan]:
    """The bound plan for launch `launch` of `step`, with ports that no process of the old plan had.

    The old ports are avoided too: what is left of the dead processes may still hold them.
    Errors: `FactsMissing`, `PortsExhausted`.
    """
    known = {fact.node: fact for fact in facts}
    supply: dict[int, list[int]] = {}
    problems: list[Problem] = []
    for slot in step.slots:
        node = known.get(bound.nodes[slot].name)
        if node is None:
            source = f"node {bound.nodes[slot].name}"
            problems.append(FactsMissing(at=At(source=source), reason="it did not report before the restart"))
            continue
        taken = sorted({*node.taken_ports, *ports_on(bound, slot)})
        ports = node_ports(plan, node, bound.attempt, _sizes(bound, step, slot), taken)
        if is_successful(ports):
            supply[slot] = list(ports.unwrap())
        else:
            problems.extend(ports.failure())
    return unless(problems, bound).map(lambda old: _replaced(plan, old, step, launch, supply))


def ports_on(bound: BoundPlan, slot: int) -> tuple[int, ...]:
    """Every port that the plan uses on a node, all of each private range."""
    found = [endpoint.port for endpoint in bound.endpoints if slot == bound.client_slot]
    for deployment in bound.deployments:
        for replica in deployment.replicas:
            if replica.lanes[0].slot == slot:
                found += [port for port in (replica.master_port, replica.rpc_port) if port is not None]
            for lane in replica.lanes:
                if lane.slot == slot:
                    found += _ports_of(lane)
    return tuple(found)


def _ports_of(lane: Lane) -> list[Port]:
    own = [lane.role.http_port] if isinstance(lane.role, Serving) else []
    first = lane.internal_port
    return own if first is None else own + [Port(first + offset) for offset in range(INTERNAL_PORTS)]


def _sizes(bound: BoundPlan, step: Step, slot: int) -> list[int]:
    """Runs of ports that the step needs on a node, in the order in which `_relaid` takes them."""
    sizes: list[int] = []
    for replica in _replicas(bound, step):
        if replica.lanes[0].slot == slot:
            sizes += [1] * ((replica.master_port is not None) + (replica.rpc_port is not None))
        for lane in replica.lanes:
            if lane.slot == slot:
                sizes += [1] * isinstance(lane.role, Serving)
                sizes += [INTERNAL_PORTS] * (lane.internal_port is not None)
    return sizes


def _replicas(bound: BoundPlan, step: Step) -> list[Replica]:
    return [r for d in bound.deployments if d.alias == step.alias for r in d.replicas if r.index in step.replicas]


def _replaced(plan: RunPlan, bound: BoundPlan, step: Step, launch: int, supply: dict[int, list[int]]) -> BoundPlan:
    deployments = tuple(
        _relaid_deployment(plan, bound, deployment, step, launch, supply)
        if deployment.alias == step.alias
        else deployment
        for deployment in bound.deployments
    )
    return msgspec.structs.replace(bound, deployments=deployments)


def _relaid_deployment(
    plan: RunPlan, bound: BoundPlan, old: BoundDeployment, step: Step, launch: int, supply: dict[int, list[int]]
) -> BoundDeployment:
    planned = next(deployment for deployment in plan.deployments if deployment.alias == old.alias)
    replicas = tuple(
        _relaid(replica, identity(bound.attempt, planned, replica.index, launch), supply)
        if replica.index in step.replicas
        else replica
        for replica in old.replicas
    )
    return msgspec.structs.replace(old, replicas=replicas)


def _relaid(old: Replica, name: str, supply: dict[int, list[int]]) -> Replica:
    leader = supply[old.lanes[0].slot]
    master = None if old.master_port is None else Port(leader.pop(0))
    rpc = None if old.rpc_port is None else Port(leader.pop(0))
    return Replica(
        index=old.index,
        identity=name,
        lanes=tuple(_relaid_lane(lane, supply[lane.slot]) for lane in old.lanes),
        master_port=master,
        rpc_port=rpc,
    )


def _relaid_lane(old: Lane, ports: list[int]) -> Lane:
    return Lane(
        slot=old.slot,
        rank=old.rank,
        gpu_indices=old.gpu_indices,
        role=Serving(http_port=Port(ports.pop(0))) if isinstance(old.role, Serving) else old.role,
        internal_port=None if old.internal_port is None else Port(ports.pop(0)),
        launch_delay_ms=0,
    )
