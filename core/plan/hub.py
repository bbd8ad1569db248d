"""Models that are named by their id on the hub: who downloads them, and which servers then need no network.

Many processes that download into one cache at the same time wait for each other's locks, and on network file systems
they break it. So one process fetches each model into each cache before any server starts, and servers are told to stay
offline. Where the author says otherwise, or where it cannot be known what servers will ask for, nothing is forbidden.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from core.config.flags import bare_name, flag_name
from core.config.run_config import LiteralValue
from core.plan.bound import Download, EnvVar
from core.plan.facts import HubFact, HubWanted, NodeFacts
from core.plan.model import DeploymentPlan, RunPlan
from core.plan.paths import is_path
from core.units import StepName

OFFLINE = EnvVar(name="HF_HUB_OFFLINE", value="1")
_REPOSITORY = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_AUTHOR_DECIDES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_USE_MODELSCOPE")
_OTHER_CACHE = "download-dir"
_LOADS_MORE = frozenset("speculative-config lora-modules default-mm-loras hf-config-path hf-overrides".split())
"""Flags that can name further repositories, in ways that are not read here."""
_LOST_WITH_A_CONTAINER = frozenset(
    "overlay fuse.fuse-overlayfs squashfs fuse.squashfuse fuse.squashfuse_ll tmpfs ramfs rootfs".split()
)


def hub_wanted(plan: RunPlan) -> tuple[HubWanted, ...]:
    """What every node is asked about its cache of the hub."""
    return tuple(
        HubWanted(alias=deployment.alias, model=model, revision=revision, variables=tuple(_literals(deployment)))
        for deployment in plan.deployments
        for model, revision in _repositories(deployment)
    )


def downloads_for(plan: RunPlan, nodes: Sequence[NodeFacts]) -> tuple[Download, ...]:
    """One per model and cache that lacks it, on the first node that has this cache."""
    lacking: dict[tuple[str, str | None, str], list[tuple[DeploymentPlan, int]]] = {}
    for deployment in plan.deployments:
        if not _cached(plan, deployment, nodes):
            continue
        for model, revision in _repositories(deployment):
            for slot in _slots(deployment):
                fact = _fact(nodes[slot], deployment, model)
                if fact is not None and not fact.whole:
                    lacking.setdefault((model, revision, fact.place), []).append((deployment, slot))
    return tuple(
        Download(
            step=StepName(f"download{index}"),
            alias=found[0][0].alias,
            model=model,
            revision=revision,
            slot=min(slot for _, slot in found),
            nodes=len({slot for _, slot in found}),
        )
        for index, ((model, revision, _), found) in enumerate(lacking.items())
    )


def stays_offline(plan: RunPlan, deployment: DeploymentPlan, nodes: Sequence[NodeFacts]) -> bool:
    """Whether all that servers of the deployment load will be in their caches when they start."""
    return _cached(plan, deployment, nodes) and not _LOADS_MORE & _flags(deployment).keys()


def caches_lost(plan: RunPlan, deployment: DeploymentPlan, nodes: Sequence[NodeFacts]) -> tuple[HubFact, ...]:
    """Caches that are gone with the container that wrote them."""
    return tuple(
        fact
        for slot in _slots(deployment)
        for fact in nodes[slot].hub
        if fact.alias == deployment.alias and not fact.whole and not fact.offline and _is_lost(plan, fact)
    )


def _cached(plan: RunPlan, deployment: DeploymentPlan, nodes: Sequence[NodeFacts]) -> bool:
    """Whether every node told of a cache that servers will find again, and that may be filled."""
    repositories = tuple(_repositories(deployment))
    facts = [_fact(nodes[slot], deployment, model) for slot in _slots(deployment) for model, _ in repositories]
    return bool(facts) and all(fact is not None and _is_usable(plan, fact) for fact in facts)


def _is_usable(plan: RunPlan, fact: HubFact) -> bool:
    return not fact.offline and not _is_lost(plan, fact)


def _is_lost(plan: RunPlan, fact: HubFact) -> bool:
    return plan.site.container != "none" and fact.filesystem in _LOST_WITH_A_CONTAINER


def _fact(node: NodeFacts, deployment: DeploymentPlan, model: str) -> HubFact | None:
    return next((fact for fact in node.hub if fact.alias == deployment.alias and fact.model == model), None)


def _slots(deployment: DeploymentPlan) -> range:
    first = deployment.placement.first_slot
    return range(first, first + deployment.placement.nodes)


def _repositories(deployment: DeploymentPlan) -> Iterator[tuple[str, str | None]]:
    """Model and tokenizer with their revisions; nothing where the author decides or servers use another cache."""
    flags = _flags(deployment)
    authored = {entry.name for entry in deployment.server.environment}
    if not authored.isdisjoint(_AUTHOR_DECIDES) or _OTHER_CACHE in flags or not is_hub_id(deployment.server.model):
        return
    yield deployment.server.model, flags.get("revision") or None
    tokenizer = flags.get("tokenizer", deployment.server.model)
    if tokenizer != deployment.server.model and is_hub_id(tokenizer):
        yield tokenizer, flags.get("tokenizer-revision") or None


def is_hub_id(model: str) -> bool:
    """``org/name`` or ``name``; not a path, not an address, not a single file of a repository."""
    return not is_path(model) and _REPOSITORY.fullmatch(model) is not None


def _flags(deployment: DeploymentPlan) -> Mapping[str, str]:
    """The author's flags, by their name without dashes; the value is empty for a switch."""
    found: dict[str, str] = {}
    for word, following in itertools.pairwise((*deployment.server.extra_args, "--")):
        name = flag_name(word)
        if name is not None:
            after = "" if following.startswith("--") else following
            found[bare_name(name).partition(".")[0]] = word.partition("=")[2] if "=" in word else after
    return found


def _literals(deployment: DeploymentPlan) -> Iterator[tuple[str, str]]:
    for entry in deployment.server.environment:
        if isinstance(entry.value, LiteralValue):
            yield entry.name, entry.value.value
