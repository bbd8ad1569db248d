"""Judging what nodes said of themselves: every node and every problem at once, before any server starts."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from core.plan.facts import FactsRequest, NodeFacts, PathKind, PathWanted
from core.plan.hosts import choose_addresses
from core.plan.hub import hub_wanted
from core.plan.masks import gpu_names, mask_problems
from core.plan.model import DeploymentPlan, RunPlan
from core.plan.paths import is_path
from core.problem import (
    At,
    DevicesTooFew,
    FactsMissing,
    LimitTooLow,
    NoUsableAddress,
    PathUnusable,
    Problem,
    VersionUnfit,
)
from core.units import NodeName
from core.vllm.versions import VllmVersion, parse_version

SHM_MIB_PER_RANK = 128
"""NCCL's and vLLM's shared buffers for each rank of a tensor group on a node; a container's default of 64 MiB fails."""
OPEN_FILES = 4_096
"""The sockets of a busy API server; the soft limit is raised to the hard one."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """How a run without the real servers differs: what stands in for vLLM.

    Nodes are judged all the same, but not by what a machine without GPUs need not have: models, vLLM and a large
    /dev/shm are not asked for, and simulated nodes show as many GPUs as are planned.
    """

    executable: tuple[str, ...]


def facts_request(
    plan: RunPlan, rehearsal: Rehearsal | None, output_dir: str, deployments: Sequence[DeploymentPlan] | None = None
) -> FactsRequest:
    """What nodes are asked before servers of these deployments (all, if none are named) are planned on them."""
    if rehearsal is not None:
        return FactsRequest(paths=(), executables=(), ask_vllm_version=False, output_dir=output_dir)
    asked = plan.deployments if deployments is None else deployments
    aliases = {d.alias for d in asked}
    models = dict.fromkeys(d.server.model for d in asked if is_path(d.server.model))
    return FactsRequest(
        paths=tuple(PathWanted(path=path, kind=_kind(path)) for path in models),
        executables=tuple(dict.fromkeys(d.server.executable for d in asked)),
        ask_vllm_version=True,
        hub=tuple(wanted for wanted in hub_wanted(plan) if wanted.alias in aliases),
        output_dir=output_dir,
    )


def _kind(model: str) -> PathKind:
    return "file" if model.endswith(".gguf") else "directory"


def match_facts(
    hosts: Sequence[NodeName], facts: Sequence[NodeFacts], silent: Sequence[FactsMissing] = ()
) -> Iterator[NodeFacts | Problem]:
    """The facts of every host, in order; a problem where one is missing, that of `silent` where the reason is known."""
    known = {missing.at.source: missing for missing in silent}
    by_name: Mapping[NodeName, NodeFacts] = {fact.node: fact for fact in facts}
    for host in hosts:
        at = At(source=f"node {host}")
        yield by_name.get(host) or known.get(at.source) or FactsMissing(at=at, reason="no facts file")


def node_problems(
    plan: RunPlan, matched: Sequence[NodeFacts | Problem], rehearsal: Rehearsal | None = None
) -> Iterator[Problem]:
    """Everything that speaks against the nodes, node by node, in slot order. Those that did not report are skipped."""
    facts = {slot: node for slot, node in enumerate(matched) if isinstance(node, NodeFacts)}
    addresses = choose_addresses(tuple(facts.values()), plan.site.interface)
    for (slot, node), address in zip(facts.items(), addresses, strict=True):
        at = At(source=f"node {node.node}")
        if address is None:
            found = tuple(f"{a.interface} {a.address}" for a in node.addresses)
            yield NoUsableAddress(at=at, interface=plan.site.interface, found=found)
        here = [d for d in plan.deployments if slot in _slots(d)]
        yield from _devices(node, here, at)
        yield from _paths(node, at)
        if rehearsal is None:
            yield from _shared_memory(node, here, at)
        yield from _open_files(node, at)
        for alike in _by_image(here).values():
            yield from _versions(node, alike, _first_of(plan, alike[0].server.image, facts), at)


def _by_image(deployments: Sequence[DeploymentPlan]) -> Mapping[str | None, Sequence[DeploymentPlan]]:
    """Natively all of them are one group."""
    groups: dict[str | None, list[DeploymentPlan]] = {}
    for deployment in deployments:
        groups.setdefault(deployment.server.image, []).append(deployment)
    return groups


def _first_of(plan: RunPlan, image: str | None, facts: Mapping[int, NodeFacts]) -> NodeFacts:
    """The first node that servers from this image stand on, of those that reported."""
    slots = {slot for d in plan.deployments if d.server.image == image for slot in _slots(d)}
    return next(node for slot, node in facts.items() if slot in slots)


def _slots(deployment: DeploymentPlan) -> range:
    first = deployment.placement.first_slot
    return range(first, first + deployment.placement.nodes)


def _devices(node: NodeFacts, here: Sequence[DeploymentPlan], at: At) -> Iterator[Problem]:
    needs = [
        d.placement.gpu_start + (d.placement.gpus_per_node or d.placement.gpus_per_replica_node)
        for d in here
        if d.placement.gpus_per_node != 0
    ]
    found = len(gpu_names(node.devices))
    if max(needs, default=0) > found:
        yield DevicesTooFew(at=at, planned=max(needs), found=found)
    for deployment in here:
        if deployment.placement.gpus_per_node != 0:
            version = VllmVersion(text=deployment.server.vllm_version or node.vllm(deployment.alias))
            yield from mask_problems(node.devices, deployment.placement.gpus_per_replica_node, version, at)


def _paths(node: NodeFacts, at: At) -> Iterator[Problem]:
    for fact in node.paths:
        if fact.state != "fine":
            state = f"{fact.state} ({fact.detail})" if fact.detail else fact.state
            yield PathUnusable(at=at, path=fact.path, state=state, wanted=fact.kind)


def _shared_memory(node: NodeFacts, here: Sequence[DeploymentPlan], at: At) -> Iterator[Problem]:
    ranks = max((d.placement.gpus_per_replica_node for d in here), default=1)
    if ranks > 1 and node.shm_mib < ranks * SHM_MIB_PER_RANK:
        yield LimitTooLow(at=at, what="/dev/shm", found=node.shm_mib, needed=ranks * SHM_MIB_PER_RANK, unit="MiB")


def _open_files(node: NodeFacts, at: At) -> Iterator[Problem]:
    if node.nofile_hard < OPEN_FILES:
        what = "the hard limit of open files (ulimit -Hn)"
        yield LimitTooLow(at=at, what=what, found=node.nofile_hard, needed=OPEN_FILES, unit="files")


def _versions(node: NodeFacts, alike: Sequence[DeploymentPlan], first: NodeFacts, at: At) -> Iterator[Problem]:
    """Deployments of one image have one vLLM, the same on all nodes."""
    version, first_version = node.vllm(alike[0].alias), first.vllm(alike[0].alias)
    if version is None:
        return
    planned = {d.server.vllm_version for d in alike if d.server.vllm_version}
    wanted = planned or ({first_version} if first_version else set())
    if wanted and parse_version(version) not in map(parse_version, wanted):
        expected = f"vLLM {' or '.join(sorted(wanted))}, as planned"
        yield VersionUnfit(at=at, found=f"vLLM {version}", expected=expected)
