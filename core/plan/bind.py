"""Putting names, addresses, ports and devices to a plan: `RunPlan` and the facts of the granted nodes → `BoundPlan`.

Three passes, each linear in the processes: which processes stand on which slot, which ports each slot must give, and
the finished plan. Nothing else may choose a host, a port or a mask.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.outcome import Outcome, refuse, unless
from core.plan.bound import (
    Attempt,
    BoundDeployment,
    BoundEndpoint,
    BoundNode,
    BoundPlan,
    EnvItem,
    Headless,
    Lane,
    Replica,
    Serving,
)
from core.plan.facts import NodeFacts
from core.plan.hosts import choose_addresses
from core.plan.hub import OFFLINE, downloads_for, stays_offline
from core.plan.judge import Rehearsal, match_facts, node_problems
from core.plan.masks import gpu_names
from core.plan.model import DeploymentPlan, RunPlan
from core.plan.ports import assign_ports, first_port, port_range
from core.plan.process_env import INTERNAL_PORTS
from core.plan.server_args import common_arguments, common_environment
from core.plan.topology import PlannedReplica, replicas_of
from core.problem import At, FactsMissing, NodeCountMismatch, PortsExhausted, Problem
from core.units import NodeName, Port

SCHEMA_VERSION = 1
GRACE_MS = 10_000
"""From TERM to KILL of a server; well below Slurm's KillWait of 30 s."""
MOST_STEPS = 256
"""Steps per deployment; with more replicas, several share a step and so a failure domain."""
CLIENT_SLOT = 0


class Wanted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process before its ports are known. A process without an API has no `http`."""

    slot: int
    rank: int
    gpus: tuple[int, ...]
    http: bool
    internal: bool
    master: bool
    rpc: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """Runs of ports that it needs, in the order in which they are given out."""
        return (*(1,) * (self.http + self.master + self.rpc), *(INTERNAL_PORTS,) * self.internal)


def bind(
    plan: RunPlan,
    hosts: Sequence[NodeName],
    facts: Sequence[NodeFacts],
    attempt: Attempt,
    bundle: str,
    rehearsal: Rehearsal | None = None,
    silent: Sequence[FactsMissing] = (),
) -> Outcome[BoundPlan]:
    """The plan for these nodes. Nodes beyond those planned for stay unused. `silent` says why nodes did not report.

    Errors: `NodeCountMismatch`; `FactsMissing`; everything of `core.plan.judge.node_problems`; `PortsExhausted`.
    All nodes' problems together.
    """
    if len(hosts) < plan.request.nodes:
        at = At(source="the allocation", path="SLURM_JOB_NODELIST")
        return refuse(NodeCountMismatch(at=at, planned=plan.request.nodes, granted=len(hosts)))
    matched = tuple(match_facts(hosts[: plan.request.nodes], facts, silent))
    nodes = tuple(found for found in matched if isinstance(found, NodeFacts))
    missing = tuple(found for found in matched if not isinstance(found, NodeFacts))
    judged = tuple(node_problems(plan, matched, rehearsal)) if nodes else ()
    if missing or judged:
        return refuse(*missing, *judged)
    processes = _processes(plan, nodes)
    return _ports(plan, nodes, processes, attempt).map(
        lambda ports: _assemble(plan, nodes, attempt, bundle, rehearsal, processes, ports)
    )


Processes = tuple[tuple[tuple[Wanted, ...], ...], ...]
"""Per deployment, per replica, its processes in rank order."""


def _processes(plan: RunPlan, nodes: Sequence[NodeFacts]) -> Processes:
    gpus = [len(gpu_names(node.devices)) for node in nodes]
    return tuple(
        tuple(tuple(wanted_processes(deployment, replica)) for replica in replicas_of(deployment.placement, gpus))
        for deployment in plan.deployments
    )


def wanted_processes(deployment: DeploymentPlan, replica: PlannedReplica) -> Iterator[Wanted]:
    """The processes of a replica: one per node, or one per data-parallel rank where requests go to ranks."""
    parallel = deployment.placement.parallel
    per_rank = parallel.load_balancing == "external"
    per_node = parallel.data // parallel.nodes if per_rank else 1
    spans = parallel.tensor * parallel.pipeline > parallel.world // parallel.nodes
    for node, slot in enumerate(replica.slots):
        for part in range(per_node):
            first = node == 0 and part == 0
            share = len(replica.gpus) // per_node
            yield Wanted(
                slot=slot,
                rank=node * per_node + part,
                gpus=tuple(replica.gpus[part * share : (part + 1) * share]),
                http=first or parallel.load_balancing in ("hybrid", "external"),
                internal=not spans,
                master=first and spans,
                rpc=first and parallel.data > 1 and (parallel.nodes > 1 or per_rank),
            )


def _ports(
    plan: RunPlan, nodes: Sequence[NodeFacts], processes: Processes, attempt: Attempt
) -> Outcome[tuple[list[int], ...]]:
    """Per slot, the ports that it gives, in the order in which they are taken."""
    sizes: list[list[int]] = [[] for _ in nodes]
    sizes[CLIENT_SLOT].extend(1 for _ in plan.deployments)
    for process in each(processes):
        sizes[process.slot].extend(process.sizes)
    given: list[list[int]] = []
    problems: list[Problem] = []
    for node, wanted in zip(nodes, sizes, strict=True):
        outcome = node_ports(plan, node, attempt, wanted, node.taken_ports)
        if is_successful(outcome):
            given.append(list(outcome.unwrap()))
        else:
            problems.extend(outcome.failure())
    return unless(problems, tuple(given))


def node_ports(
    plan: RunPlan, node: NodeFacts, attempt: Attempt, sizes: Sequence[int], taken: Sequence[int]
) -> Outcome[tuple[int, ...]]:
    """Ports of one node for these runs.

    Errors: `PortsExhausted`.
    """
    low, high = port_range(node, plan.site.ports)
    start = first_port(attempt.job_id, attempt.shard, low, high)
    found = assign_ports(low, high, start, taken, sizes)
    if found is not None:
        return Success(found)
    busy = sum(low <= port <= high for port in taken)
    at = At(source=f"node {node.node}")
    return refuse(PortsExhausted(at=at, low=low, high=high, wanted=sum(sizes), taken=busy))


def each(processes: Processes) -> Iterable[Wanted]:
    """All processes, in the one order in which ports are given out."""
    return (process for replicas in processes for replica in replicas for process in replica)


def _assemble(
    plan: RunPlan,
    nodes: Sequence[NodeFacts],
    attempt: Attempt,
    bundle: str,
    rehearsal: Rehearsal | None,
    processes: Processes,
    ports: Sequence[list[int]],
) -> BoundPlan:
    supply = [iter(given) for given in ports]
    lanes_so_far = [0] * len(nodes)
    endpoint_ports = [next(supply[CLIENT_SLOT]) for _ in plan.deployments]
    return BoundPlan(
        schema_version=SCHEMA_VERSION,
        attempt=attempt,
        nodes=_bound_nodes(plan, nodes),
        client_slot=CLIENT_SLOT,
        grace_ms=GRACE_MS,
        bundle=bundle,
        deployments=tuple(
            BoundDeployment(
                alias=deployment.alias,
                served_name=deployment.served_name,
                executable=rehearsal.executable if rehearsal else (deployment.server.executable,),
                model=deployment.server.model,
                parallel=deployment.placement.parallel,
                arguments=common_arguments(deployment, nodes[deployment.placement.first_slot].vllm(deployment.alias)),
                environment=_environment(plan, deployment, nodes),
                readiness_path=deployment.server.readiness_path,
                startup_timeout_ms=deployment.server.startup_timeout_ms,
                replicas_per_step=max(1, -(-len(replicas) // MOST_STEPS)),
                replicas=tuple(
                    _replica(deployment, attempt, index, replica, supply, lanes_so_far, rehearsal is not None)
                    for index, replica in enumerate(replicas)
                ),
            )
            for deployment, replicas in zip(plan.deployments, processes, strict=True)
        ),
        downloads=downloads_for(plan, nodes),
        endpoints=tuple(
            BoundEndpoint(alias=deployment.alias, address="127.0.0.1", port=Port(port))
            for deployment, port in zip(plan.deployments, endpoint_ports, strict=True)
        ),
    )


def _environment(plan: RunPlan, deployment: DeploymentPlan, nodes: Sequence[NodeFacts]) -> tuple[EnvItem, ...]:
    common = common_environment(deployment)
    return (*common, OFFLINE) if stays_offline(plan, deployment, nodes) else common


def _bound_nodes(plan: RunPlan, nodes: Sequence[NodeFacts]) -> tuple[BoundNode, ...]:
    return tuple(
        BoundNode(
            name=node.node,
            address=address.address if address else "127.0.0.1",
            interface=address.interface if address else None,
            gpu_variable=node.devices.variable,
            gpus=gpu_names(node.devices),
        )
        for node, address in zip(nodes, choose_addresses(nodes, plan.site.interface), strict=True)
    )


def _replica(
    deployment: DeploymentPlan,
    attempt: Attempt,
    index: int,
    processes: Sequence[Wanted],
    supply: Sequence[Iterator[int]],
    lanes_so_far: list[int],
    rehearsed: bool,
) -> Replica:
    http: list[int | None] = []
    lanes: list[Lane] = []
    master: int | None = None
    rpc: int | None = None
    for process in processes:
        ports = supply[process.slot]
        http.append(next(ports) if process.http else None)
        master = next(ports) if process.master else master
        rpc = next(ports) if process.rpc else rpc
        lanes.append(
            Lane(
                slot=process.slot,
                rank=process.rank,
                gpu_indices=process.gpus,
                role=Serving(http_port=Port(http[-1])) if http[-1] is not None else Headless(),
                internal_port=Port(next(ports)) if process.internal else None,
                launch_delay_ms=0 if rehearsed else launch_delay(deployment, index, lanes_so_far[process.slot]),
            )
        )
        lanes_so_far[process.slot] += 1
    return Replica(
        index=index,
        identity=identity(attempt, deployment, index, 1),
        lanes=tuple(lanes),
        master_port=None if master is None else Port(master),
        rpc_port=None if rpc is None else Port(rpc),
    )


def launch_delay(deployment: DeploymentPlan, replica: int, lanes_before: int) -> int:
    """The first replica of a model starts at once, the others after one standoff; lanes of a node one after another.

    It does not grow with the number of replicas: the last of 512 starts no later than the second of its node.
    """
    standoff = deployment.server.standoff_ms if replica > 0 else 0
    return standoff + deployment.server.stagger_ms * lanes_before


def identity(attempt: Attempt, deployment: DeploymentPlan, replica: int, launch: int) -> str:
    """A served name that no other replica, attempt or launch has."""
    return f"{attempt.run_id}.{attempt.shard}.{attempt.number}.{deployment.alias}-{replica}.{launch}"
