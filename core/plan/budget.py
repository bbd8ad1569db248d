"""Spending a GPU budget: nodes, replicas and tensor-parallel sizes for several models, when only GPUs were given.

The authored topology is the smallest that a model needs. Rules: (1) a tensor group is raised to the next size that
divides a node's GPUs, so that no GPU is left over inside a node; (2) when all models fit together on one node and the
budget is no more than a node, or does not suffice for a node each, they share one node; (3) otherwise each gets whole
nodes. (4) What is left goes, one replica at a time, to the model with the fewest GPUs, the earlier one first. (5) Slurm
is asked for no more than what is planned: the rest of a shared node is for others.
"""

from collections.abc import Sequence

import msgspec
from returns.result import Success

from core.config.run_config import Deployment, Resources, Topology
from core.outcome import Outcome, refuse
from core.problem import At, BudgetUnfit


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Deployments with resources filled in, and the choices in words."""

    deployments: tuple[Deployment, ...]
    notes: tuple[str, ...]


def spend(deployments: Sequence[Deployment], budget: int, gpus_per_node: int | None, at: At) -> Outcome[Spent]:
    """Resources for every deployment, within `budget` GPUs.

    Errors: `BudgetUnfit` when the models do not fit, or when the GPUs of a node are not known.
    """
    if not gpus_per_node:
        reason = "gpus_per_node of the profile must be a number of GPUs for a budget to be planned"
        return refuse(BudgetUnfit(at=at, gpus=budget, needed=budget, reason=reason))
    wanted = tuple(_raised(deployment, gpus_per_node) for deployment in deployments)
    sizes = [_replica_gpus(deployment) for deployment in wanted]
    node_counts = [
        max(-(-size // gpus_per_node), deployment.topology.nodes_per_replica or 1)
        for deployment, size in zip(wanted, sizes, strict=True)
    ]
    whole = budget // gpus_per_node
    one_node = sum(sizes) <= gpus_per_node and max(node_counts) == 1
    if one_node and sum(sizes) <= budget and (budget <= gpus_per_node or whole < sum(node_counts)):
        return Success(_noted(_share_one_node(wanted, sizes, min(budget, gpus_per_node), gpus_per_node), deployments))
    if whole < sum(node_counts):
        needed = sum(sizes) if one_node else sum(node_counts) * gpus_per_node
        parts = ", ".join(f"{d.model_alias} {size}" for d, size in zip(wanted, sizes, strict=True))
        reason = f"one replica of each model takes {parts} GPUs, on nodes of {gpus_per_node}"
        return refuse(BudgetUnfit(at=at, gpus=budget, needed=needed, reason=reason))
    return Success(_noted(_whole_nodes(wanted, node_counts, whole, budget - whole * gpus_per_node), deployments))


def _noted(spent: Spent, authored: Sequence[Deployment]) -> Spent:
    """With the sizes that are not the authored ones."""
    sizes = (
        (new.model_alias, old.topology.tensor_parallel, new.topology.tensor_parallel)
        for old, new in zip(authored, spent.deployments, strict=True)
    )
    raised = (
        f"budget: tensor_parallel of {alias} is raised from {old} to {new}, so that no GPU of a node is left over"
        for alias, old, new in sizes
        if new != old
    )
    return Spent(deployments=spent.deployments, notes=(*spent.notes, *raised))


def _raised(deployment: Deployment, gpus_per_node: int) -> Deployment:
    asked = deployment.topology.tensor_parallel
    fits = (size for size in range(asked, gpus_per_node + 1) if gpus_per_node % size == 0)
    return _with(deployment, tensor=next(fits, asked))


def _replica_gpus(deployment: Deployment) -> int:
    topology = deployment.topology
    expert = topology.expert_parallel or deployment.server.enable_expert_parallel
    data = topology.data_parallel if expert else 1
    return topology.tensor_parallel * (topology.pipeline_parallel or topology.nodes_per_replica or 1) * data


def _grown(units: Sequence[int], total: int) -> list[int]:
    """Multiples of `units` within `total`: the smallest share grows first, while anything fits."""
    shares = list(units)
    while True:
        growable = [i for i in range(len(units)) if sum(shares) + units[i] <= total]
        if not growable:
            return shares
        poorest = min(growable, key=lambda i: (shares[i], i))
        shares[poorest] += units[poorest]


def _share_one_node(deployments: Sequence[Deployment], sizes: Sequence[int], total: int, gpus_per_node: int) -> Spent:
    if len(deployments) == 1 and total == gpus_per_node:
        note = f"budget: {deployments[0].model_alias} gets one node of its own"
        return Spent(deployments=(_with(deployments[0], resources=Resources(nodes=1)),), notes=(note,))
    quotas = _grown(sizes, total)
    shared = tuple(
        _with(deployment, resources=Resources(nodes=1, shared_node="budget", gpus_per_node=quota))
        for deployment, quota in zip(deployments, quotas, strict=True)
    )
    parts = ", ".join(f"{d.model_alias} {quota}" for d, quota in zip(shared, quotas, strict=True))
    return Spent(deployments=shared, notes=(f"budget: all models share one node, GPUs: {parts}",))


def _whole_nodes(deployments: Sequence[Deployment], units: Sequence[int], nodes: int, unused: int) -> Spent:
    given = _grown(units, nodes)
    placed = tuple(
        _with(deployment, resources=Resources(nodes=count))
        for deployment, count in zip(deployments, given, strict=True)
    )
    parts = ", ".join(f"{d.model_alias} {count}" for d, count in zip(placed, given, strict=True))
    rest = f"; {unused} GPUs of the budget are less than a node and stay unused" if unused else ""
    return Spent(deployments=placed, notes=(f"budget: whole nodes, {parts}{rest}",))


def _with(deployment: Deployment, *, tensor: int | None = None, resources: Resources | None = None) -> Deployment:
    old = deployment.topology
    return Deployment(
        model_alias=deployment.model_alias,
        model=deployment.model,
        served_model_name=deployment.served_model_name,
        server=deployment.server,
        resources=resources or deployment.resources,
        topology=Topology(
            tensor_parallel=tensor or old.tensor_parallel,
            pipeline_parallel=old.pipeline_parallel,
            data_parallel=old.data_parallel,
            expert_parallel=old.expert_parallel,
            nodes_per_replica=old.nodes_per_replica,
            load_balancing=old.load_balancing,
        ),
        on_failure=deployment.on_failure,
        min_ready_replicas=deployment.min_ready_replicas,
    )
