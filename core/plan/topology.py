"""Which ranks of which replica sit on which node slots and GPUs. Slots are 0..n-1: names come with the grant.

Rules, in this order:

1. Deployments take nodes in the order of the run file, each its own; those of one `shared_node` share one node, each
   with its quota of GPUs. The client is on slot 0.
2. A replica takes `nodes_per_replica` consecutive nodes (derived when not given: as few as hold its ranks) and the same
   GPUs on each; as many replicas as fit stand side by side on such a group (lanes).
3. `nodes_per_replica` without `pipeline_parallel` means pipeline stages over that many nodes, unless the tensor group
   itself is larger than a node or there are data-parallel ranks to spread.
4. Data parallel without expert parallel is a dense model: its ranks share nothing, so they are planned as independent
   replicas, which the endpoint balances. With expert parallel they are one group and one failure domain; how their load
   is balanced is `_load_balancing`.

Placements are compact: replicas are derived from them (`replicas_of`), with the numbers of GPUs that nodes really have.
"""

import itertools
from collections.abc import Iterator, Sequence

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.config.run_config import Deployment
from core.outcome import Outcome, collect, refuse, unless
from core.plan.bound import Parallel
from core.problem import (
    At,
    GpusNotDivisible,
    NodesNotDivisible,
    Problem,
    RanksNotDivisible,
    SharedNodeOverfull,
    TooFewGpus,
    WrongCombination,
)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and GPUs of one deployment. `gpus_per_node` is None where only the node itself will tell."""

    first_slot: int
    nodes: int
    gpu_start: int
    gpus_per_node: int | None
    gpus_per_replica_node: int
    parallel: Parallel


class PlannedReplica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One replica: its slots in rank order and its GPUs, the same indices on each of them."""

    index: int
    slots: range
    gpus: range


def place(
    deployments: Sequence[Deployment], gpus_per_node: int | None, at: Sequence[At]
) -> Outcome[tuple[Placement, ...]]:
    """A placement per deployment, in order. `at` says where each deployment stands.

    Errors: `TooFewGpus`, `GpusNotDivisible`, `NodesNotDivisible`, `RanksNotDivisible`, `SharedNodeOverfull`,
    `WrongCombination`; all deployments' together.
    """
    if deployments[0].resources.shared_node is not None:
        return _place_shared(deployments, gpus_per_node, at)
    outcomes: list[Outcome[Placement]] = []
    slot = 0
    for deployment, where in zip(deployments, at, strict=True):
        outcomes.append(_place_one(deployment, slot, 0, gpus_per_node, where))
        slot += deployment.resources.nodes
    return collect(outcomes)


def _place_shared(
    deployments: Sequence[Deployment], gpus_per_node: int | None, at: Sequence[At]
) -> Outcome[tuple[Placement, ...]]:
    outcomes: list[Outcome[Placement]] = []
    ranges: list[range] = []
    for deployment, where in zip(deployments, at, strict=True):
        quota = deployment.resources.gpus_per_node or 0
        given = deployment.resources.gpu_start_index
        start = given if given is not None else max((taken.stop for taken in ranges), default=0)
        ranges.append(range(start, start + quota))
        outcomes.append(_place_one(deployment, 0, start, quota, where))
    return collect(outcomes).bind(lambda placed: unless(_overfull(deployments, ranges, gpus_per_node, at), placed))


def _overfull(
    deployments: Sequence[Deployment], ranges: Sequence[range], gpus_per_node: int | None, at: Sequence[At]
) -> Iterator[Problem]:
    ordered = sorted((taken for taken in ranges if taken), key=lambda taken: taken.start)
    overlap = any(left.stop > right.start for left, right in itertools.pairwise(ordered))
    last = max((taken.stop for taken in ranges), default=0)
    if overlap or (gpus_per_node is not None and last > gpus_per_node):
        yield SharedNodeOverfull(
            at=at[0],
            node_group=deployments[0].resources.shared_node or "",
            wanted=tuple(
                f"{d.model_alias}: {t.start}-{t.stop - 1}" for d, t in zip(deployments, ranges, strict=True) if t
            ),
            gpus_per_node=last if gpus_per_node is None else gpus_per_node,
        )


def _place_one(deployment: Deployment, slot: int, start: int, gpus: int | None, at: At) -> Outcome[Placement]:
    nodes = deployment.resources.nodes
    parallel = cut(deployment, gpus, at)
    if not is_successful(parallel):
        return refuse(*parallel.failure())
    shape = parallel.unwrap()
    local = shape.world // shape.nodes
    if nodes % shape.nodes:
        return refuse(NodesNotDivisible(at=at, nodes=nodes, nodes_per_replica=shape.nodes))
    if gpus and gpus % local:
        return refuse(GpusNotDivisible(at=at, gpus_per_node=gpus, group=local))
    fit = nodes // shape.nodes * (gpus // local if gpus else 1)
    if gpus is not None and shape.data == 1 and fit < deployment.topology.data_parallel:
        return refuse(_too_few(deployment, shape.pipeline, nodes, gpus, at))
    return Success(
        Placement(
            first_slot=slot,
            nodes=nodes,
            gpu_start=start,
            gpus_per_node=gpus,
            gpus_per_replica_node=local,
            parallel=shape,
        )
    )


def cut(deployment: Deployment, gpus: int | None, at: At) -> Outcome[Parallel]:
    """How one replica is cut into ranks over its nodes. `gpus` are those of a node: None if unknown, 0 without any."""
    asked = deployment.topology
    expert = asked.expert_parallel or deployment.server.enable_expert_parallel
    data = asked.data_parallel if expert else 1
    given = asked.nodes_per_replica
    one_node = not gpus or asked.tensor_parallel * data <= gpus
    stages_over_nodes = given or 1 if one_node and data == 1 else 1
    pipeline = asked.pipeline_parallel or stages_over_nodes
    world = asked.tensor_parallel * pipeline * data
    nodes = given or _fewest_nodes(world, asked.tensor_parallel, deployment.resources.nodes, gpus)
    if nodes is None or (gpus and world > nodes * gpus):
        return refuse(_too_few(deployment, pipeline, given or deployment.resources.nodes, gpus, at))
    if world % nodes or not _whole_groups(asked.tensor_parallel, world // nodes):
        return refuse(
            RanksNotDivisible(
                at=at,
                tensor_parallel=asked.tensor_parallel,
                pipeline_parallel=pipeline,
                data_parallel=data,
                nodes_per_replica=nodes,
            )
        )
    shape = Parallel(
        tensor=asked.tensor_parallel,
        pipeline=pipeline,
        data=data,
        expert=expert,
        nodes=nodes,
        load_balancing="none",
    )
    return _load_balancing(shape, asked.load_balancing, at)


def _too_few(deployment: Deployment, pipeline: int, nodes: int, gpus: int | None, at: At) -> Problem:
    return TooFewGpus(
        at=at,
        tensor_parallel=deployment.topology.tensor_parallel,
        pipeline_parallel=pipeline,
        data_parallel=deployment.topology.data_parallel,
        nodes=nodes,
        gpus_per_node=gpus or 0,
    )


def _fewest_nodes(world: int, tensor: int, available: int, gpus: int | None) -> int | None:
    """The smallest number of nodes that holds all ranks evenly; None when no number up to `available` does."""
    if not gpus:
        return 1
    fits = (n for n in range(1, available + 1) if world <= n * gpus)
    even = (n for n in fits if world % n == 0 and _whole_groups(tensor, world // n))
    smallest_that_holds = -(-world // gpus)
    return next(even, smallest_that_holds if smallest_that_holds <= available else None)


def _whole_groups(tensor: int, local: int) -> bool:
    """A node holds whole tensor groups, or a tensor group covers whole nodes."""
    return local % tensor == 0 or tensor % local == 0


def _load_balancing(shape: Parallel, asked: str, at: At) -> Outcome[Parallel]:
    """How requests find a data-parallel rank of a mixture-of-experts group.

    One node, or ranks that themselves span nodes: *internal*, one API whose engine core balances. Several nodes with
    several ranks each: *hybrid*, one API per node, so that no node carries all HTTP traffic and our endpoint balances
    over nodes. Several nodes with one rank each: *external*, one API per rank (vLLM turns hybrid into it anyway).
    """
    if shape.data == 1:
        return Success(shape)
    spans = shape.tensor * shape.pipeline > shape.world // shape.nodes
    if asked == "auto":
        per_node = shape.data // shape.nodes
        chosen = "internal" if shape.nodes == 1 or spans else "hybrid" if per_node > 1 else "external"
    elif (asked == "hybrid" and shape.nodes == 1) or (asked != "internal" and spans):
        return refuse(
            WrongCombination(
                at=at,
                found=f"load_balancing {asked!r} does not fit a group on {shape.nodes} nodes"
                + (" whose ranks span nodes" if spans else ""),
                expected="leave load_balancing out, or use internal",
            )
        )
    else:
        chosen = asked
    return Success(msgspec.convert(msgspec.structs.asdict(shape) | {"load_balancing": chosen}, Parallel))


def slots_needed(placements: Sequence[Placement]) -> int:
    """Nodes of the allocation."""
    return max(placement.first_slot + placement.nodes for placement in placements)


def replicas_of(placement: Placement, gpus_by_slot: Sequence[int]) -> Iterator[PlannedReplica]:
    """The replicas, group of nodes by group, lane by lane. `gpus_by_slot`: GPUs of every node of the allocation.

    Where the plan did not know the number of GPUs, a group of nodes holds what its smallest node holds.
    """
    width, local = placement.parallel.nodes, placement.gpus_per_replica_node
    index = 0
    for first in range(placement.first_slot, placement.first_slot + placement.nodes, width):
        slots = range(first, first + width)
        for lane in range(_lanes(placement, min(gpus_by_slot[slot] for slot in slots))):
            start = placement.gpu_start + lane * local
            gpus = range(0) if placement.gpus_per_node == 0 else range(start, start + local)
            yield PlannedReplica(index=index, slots=slots, gpus=gpus)
            index += 1


def _lanes(placement: Placement, found: int) -> int:
    if placement.gpus_per_node == 0:
        return 1
    have = found if placement.gpus_per_node is None else placement.gpus_per_node
    return have // placement.gpus_per_replica_node


def gpus_on_slots(placements: Sequence[Placement]) -> tuple[int, ...]:
    """GPUs that a node of each slot must have at least: what a simulated node pretends to have."""
    counts = [0] * slots_needed(placements)
    for placement in placements:
        have = placement.gpus_per_replica_node if placement.gpus_per_node is None else placement.gpus_per_node
        for slot in range(placement.first_slot, placement.first_slot + placement.nodes):
            counts[slot] = max(counts[slot], placement.gpu_start + have)
    return tuple(counts)
