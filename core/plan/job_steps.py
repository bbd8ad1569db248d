"""The job steps of an attempt as ``srun`` is asked for them: facts of every node, and the servers of one step.

Both run the node worker once per node and see all GPUs that the job has there: overlapping steps would be given the
same ones whatever they ask for, so the masks of single processes are set by the worker, from the bound plan.
"""

from collections.abc import Sequence

import msgspec

from core.layout import AttemptPaths
from core.plan.bound import BoundPlan
from core.plan.contained import container_of
from core.plan.model import RunPlan
from core.plan.steps import Step
from core.slurm.containers import container_name
from core.slurm.srun import StepRequest
from core.units import NodeName, StepName

FACTS_STEP = StepName("facts")
_NODE_WORKER = ("-m", "shell.node")


class StepSite(msgspec.Struct, frozen=True, kw_only=True):
    """What all steps of an attempt share.

    `gpus_per_node` is 0 for a job without GPUs, None where Slurm does not manage them or nodes have unequal numbers.
    `python` runs the worker natively; an image has its own. `rehearsed_devices` is what nodes report in a rehearsal.
    """

    job_id: str
    plan: RunPlan
    bundle: str
    python: str
    run_root: str
    attempt: AttemptPaths
    gpus_per_node: int | None
    rehearsed_devices: int | None = None


def facts_step(
    site: StepSite, request_path: str, nodes: Sequence[NodeName], image: str | None, revision: int
) -> StepRequest:
    """Every node says what it has, and what there is in the image. `revision` counts the times that facts were asked.

    A node that cannot enter its container does not end the others, which have more to say.
    """
    rehearsed = () if site.rehearsed_devices is None else ("--devices", str(site.rehearsed_devices))
    words = ("facts", "--request", request_path, *rehearsed)
    request = _request(site, FACTS_STEP, f"{FACTS_STEP}.{revision}", nodes, words, image)
    return msgspec.structs.replace(request, kill_on_bad_exit=False)


def server_step(site: StepSite, step: Step, launch: int, bound: BoundPlan, plan_path: str) -> StepRequest:
    """The servers of one step. The names of its nodes are in the plan file, not in argv."""
    words = ("serve", "--plan", plan_path, "--step", step.name, "--launch", str(launch))
    places = ("--tasks-dir", site.attempt.tasks, "--log-dir", site.attempt.logs, "--lease", site.attempt.lease)
    nodes = tuple(bound.nodes[slot].name for slot in step.slots)
    image = next(d.server.image for d in site.plan.deployments if d.alias == step.alias)
    return _request(site, step.name, f"{step.name}.{launch}", nodes, (*words, *places), image)


def _request(
    site: StepSite,
    name: StepName,
    unique: str,
    nodes: Sequence[NodeName],
    words: tuple[str, ...],
    image: str | None,
) -> StepRequest:
    where = site.plan.site
    container = container_of(site.plan, image, site.run_root, site.bundle, container_name(site.job_id, unique))
    python = site.python if container is None else "python3"
    return StepRequest(
        name=name,
        nodes=tuple(nodes),
        command=(python, *_NODE_WORKER, *words),
        host_list_file=f"{site.attempt.tasks}/{unique}.nodes",
        gpus_per_node=site.gpus_per_node,
        container=container,
        extra_args=where.srun_extra_args,
        srun=f"{where.slurm_bin}/srun" if where.slurm_bin else "srun",
    )
