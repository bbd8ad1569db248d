"""Whether the site's range of ports can hold what a node needs, before anything is submitted."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile

from core.plan.bind import CLIENT_SLOT, wanted_processes
from core.plan.model import RunPlan
from core.plan.topology import PlannedReplica, gpus_on_slots, replicas_of
from core.problem import At, PortsExhausted, Problem


def port_problems(plan: RunPlan, at: At) -> Iterator[Problem]:
    """The node that needs most, when the range is narrower than that even with every port free.

    The first group of nodes of a deployment speaks for all others: they are alike, and its leader needs most.
    """
    if plan.site.ports is None:
        return
    low, high = plan.site.ports
    gpus = gpus_on_slots([deployment.placement for deployment in plan.deployments])
    needs = Counter({CLIENT_SLOT: len(plan.deployments)})
    for deployment in plan.deployments:
        first = deployment.placement.first_slot
        for replica in takewhile(_on(first), replicas_of(deployment.placement, gpus)):
            needs[first] += sum(sum(w.sizes) for w in wanted_processes(deployment, replica) if w.slot == first)
    most = max(needs.values())
    if most > high - low + 1:
        yield PortsExhausted(at=at, low=low, high=high, wanted=most, taken=0)


def _on(slot: int) -> Callable[[PlannedReplica], bool]:
    return lambda replica: replica.slots.start == slot
