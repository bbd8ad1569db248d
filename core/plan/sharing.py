"""Whether the steps of a plan can share their nodes in a release of Slurm."""

from collections.abc import Iterator

from core.plan.model import RunPlan
from core.plan.topology import gpus_on_slots, replicas_of
from core.problem import At, VersionUnfit
from core.slurm.versions import SlurmVersion
from core.units import Alias

_AT = At(source="srun --version")


def sharing_problems(plan: RunPlan, version: SlurmVersion | None) -> Iterator[VersionUnfit]:
    """Before 22.05 ``--overlap`` shares CPUs only: a second step with GPUs on a node would wait for the first for ever.

    One problem for the first node of each model where that would happen.
    """
    if version is None or version.has("overlap-shares-gres") or not plan.request.gpus_per_node:
        return
    gpus = gpus_on_slots([deployment.placement for deployment in plan.deployments])
    holder: dict[int, Alias] = {}
    for deployment in plan.deployments:
        told = False
        for replica in replicas_of(deployment.placement, gpus):
            other = next((holder[slot] for slot in replica.slots if replica.gpus and slot in holder), None)
            if other is not None and not told:
                told = True
                found = f"Slurm {version.text}, where two GPU steps ({other}, {deployment.alias}) cannot share a node"
                yield VersionUnfit(at=_AT, found=found, expected="Slurm 22.05 or newer, or one replica per node")
            if replica.gpus:
                holder.update(dict.fromkeys(replica.slots, deployment.alias))
