"""Asking nodes for facts, once per image: executables, versions and paths are those of an image, all else the node's.

Natively, and in a rehearsal, which asks nothing of images, one round asks everything of all nodes.
"""

from collections.abc import Mapping, Sequence

import msgspec

from core.plan.facts import FactsRequest, NodeFacts
from core.plan.judge import Rehearsal, facts_request
from core.plan.model import DeploymentPlan, RunPlan
from core.units import Alias, NodeName


class FactsRound(msgspec.Struct, frozen=True, kw_only=True):
    """One question to the nodes at `slots`, asked inside `image`. `number` counts from 1."""

    number: int
    image: str | None
    slots: tuple[int, ...]
    aliases: tuple[Alias, ...]
    request: FactsRequest

    def nodes(self, hosts: Sequence[NodeName]) -> tuple[NodeName, ...]:
        """Who is asked."""
        return tuple(hosts[slot] for slot in self.slots)


def facts_rounds(plan: RunPlan, rehearsal: Rehearsal | None, folder: str) -> tuple[FactsRound, ...]:
    """What is asked before servers are planned. Answers go to `folder`, from the second round on to folders in it."""
    groups: dict[str | None, list[DeploymentPlan]] = {}
    for deployment in plan.deployments:
        image = plan.deployments[0].server.image if rehearsal is not None else deployment.server.image
        groups.setdefault(image, []).append(deployment)
    return tuple(
        FactsRound(
            number=number,
            image=image,
            slots=tuple(sorted({slot for deployment in group for slot in _slots(deployment)})),
            aliases=tuple(deployment.alias for deployment in group),
            request=facts_request(plan, rehearsal, folder if number == 1 else f"{folder}/image-{number}", group),
        )
        for number, (image, group) in enumerate(groups.items(), 1)
    )


def _slots(deployment: DeploymentPlan) -> range:
    first = deployment.placement.first_slot
    return range(first, first + deployment.placement.nodes)


Answers = Sequence[Sequence[NodeFacts]]
"""Per round, the reports that came."""


def merge_facts(rounds: Sequence[FactsRound], answers: Answers, hosts: Sequence[NodeName]) -> tuple[NodeFacts, ...]:
    """One report per node that answered in every round that asked it, in the order of `hosts`."""
    silent = {node for _, node in unanswered(rounds, answers, hosts)}
    reports: dict[NodeName, list[tuple[FactsRound, NodeFacts]]] = {}
    for asked, answered in zip(rounds, answers, strict=True):
        for report in answered:
            reports.setdefault(report.node, []).append((asked, report))
    return tuple(_merged(reports[host]) for host in hosts if host in reports and host not in silent)


def unanswered(
    rounds: Sequence[FactsRound], answers: Answers, hosts: Sequence[NodeName]
) -> tuple[tuple[FactsRound, NodeName], ...]:
    """Who did not report in which round."""
    return tuple(
        (asked, node)
        for asked, answered in zip(rounds, answers, strict=True)
        for node in asked.nodes(hosts)
        if node not in {report.node for report in answered}
    )


def _merged(reports: Sequence[tuple[FactsRound, NodeFacts]]) -> NodeFacts:
    """What is the node's is taken from its first report; of sizes the smallest, since every image must do."""
    first = reports[0][1]
    if len(reports) == 1:
        return first
    all_reports = [report for _, report in reports]
    versions: Mapping[Alias, str | None] = {
        alias: report.vllm_version for asked, report in reports for alias in asked.aliases
    }
    return msgspec.structs.replace(
        first,
        taken_ports=tuple(sorted({port for report in all_reports for port in report.taken_ports})),
        shm_mib=min(report.shm_mib for report in all_reports),
        nofile_soft=min(report.nofile_soft for report in all_reports),
        nofile_hard=min(report.nofile_hard for report in all_reports),
        paths=tuple(dict.fromkeys(path for report in all_reports for path in report.paths)),
        hub=tuple(fact for report in all_reports for fact in report.hub),
        vllm_of=tuple(versions.items()),
    )
