"""What will probably go wrong and is not refused: facts as data, and their words."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from core.plan.facts import NodeFacts
from core.plan.hub import caches_lost
from core.plan.model import DeploymentPlan, RunPlan
from core.units import Alias, NodeName


class SlowLoad(msgspec.Struct, frozen=True, kw_only=True, tag="slow-load", tag_field="code"):
    """Reading the weights alone takes longer than a server may take to be ready. `models` are read on the node."""

    alias: Alias
    node: NodeName
    models: int
    weight_bytes: int
    bytes_per_second: int
    startup_timeout_ms: int


class CacheLost(msgspec.Struct, frozen=True, kw_only=True, tag="cache-lost", tag_field="code"):
    """The cache of the hub lies in the container, so every server downloads the model for itself at each start."""

    alias: Alias
    model: str
    cache: str


Advice: TypeAlias = SlowLoad | CacheLost


def advice(plan: RunPlan, facts: Sequence[NodeFacts]) -> tuple[Advice, ...]:
    """At most one of each kind per deployment, in the order of the run file. `facts` are of all slots, in order."""
    return tuple(said for deployment in plan.deployments for said in _of(plan, deployment, facts))


def _of(plan: RunPlan, deployment: DeploymentPlan, facts: Sequence[NodeFacts]) -> Iterator[Advice]:
    first = deployment.placement.first_slot
    loads = [_load(plan, slot, facts[slot]) for slot in range(first, first + deployment.placement.nodes)]
    longest = max(loads, key=lambda load: sum(load.values()))
    total, rate = sum(longest.values()), plan.site.storage_read_rate
    timeout = deployment.server.startup_timeout_ms
    if deployment.server.model in longest and total * 1000 > timeout * rate:
        yield SlowLoad(
            alias=deployment.alias,
            node=facts[first + loads.index(longest)].node,
            models=len(longest),
            weight_bytes=total,
            bytes_per_second=rate,
            startup_timeout_ms=timeout,
        )
    for lost in caches_lost(plan, deployment, facts)[:1]:
        yield CacheLost(alias=deployment.alias, model=lost.model, cache=lost.cache)


def _load(plan: RunPlan, slot: int, node: NodeFacts) -> dict[str, int]:
    """Bytes of every model that servers on the node read. Its processes read the same files, from storage once."""
    sizes = {fact.path: fact.weight_bytes for fact in node.paths}
    cached = {(fact.alias, fact.model): fact.weight_bytes for fact in node.hub}
    found: dict[str, int] = {}
    for deployment in plan.deployments:
        first, model = deployment.placement.first_slot, deployment.server.model
        size = sizes.get(model) or cached.get((deployment.alias, model))
        if slot in range(first, first + deployment.placement.nodes) and size:
            found[model] = size
    return found


def advice_words(said: Advice) -> str:
    """One sentence, and what to do."""
    if isinstance(said, CacheLost):
        return (
            f"{said.alias}: the cache of the hub, {said.cache}, is inside the container, so every server downloads "
            f"{said.model} for itself; mount a folder (container_mounts) and set HF_HOME in server.environment to it"
        )
    seconds = -(-said.weight_bytes // said.bytes_per_second)
    whose = f"the {said.models} models" if said.models > 1 else "the model"
    return (
        f"{said.alias}: reading {whose} on {said.node} may take longer than startup_timeout: "
        f"{_amount(said.weight_bytes)} at {_amount(said.bytes_per_second)}/s = {seconds} s > "
        f"{said.startup_timeout_ms / 1000:g} s; raise server.startup_timeout, or set storage_read_rate of the profile "
        "if storage is faster"
    )


def _amount(count: int) -> str:
    unit, size = next(((name, size) for name, size in _UNITS if count >= size), ("B", 1))
    return f"{count / size:.3g} {unit}"


_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
