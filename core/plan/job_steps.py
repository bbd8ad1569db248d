"""The job steps of an attempt as ``srun`` is asked for them: facts of every node, and the servers of one step.

Both run the node worker once per node and see all GPUs that the job has there: overlapping steps would be given the
same ones whatever they ask for, so the masks of single processes are set by the worker, from the bound plan.
"""

from collections.abc import Sequence

import msgspec

from core.layout import AttemptPaths
from core.plan.bound import BoundPlan
from core.plan.model import RunPlan, SitePlan
from core.plan.steps import Step
from core.slurm.containers import Apptainer, Container, Mount, Pyxis, Setting, container_name
from core.slurm.srun import StepRequest
from core.units import NodeName, StepName

FACTS_STEP = StepName("facts")
_NODE_WORKER = ("-m", "shell.node")
_FROM_OUTSIDE = ("PYTHONPATH",)
"""What an image may not override: our packages come from the bundle."""


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


def facts_step(site: StepSite, request_path: str, nodes: Sequence[NodeName], revision: int) -> StepRequest:
    """Every node says what it has. `revision` counts the times that facts were asked for."""
    rehearsed = () if site.rehearsed_devices is None else ("--devices", str(site.rehearsed_devices))
    words = ("facts", "--request", request_path, *rehearsed)
    return _request(site, FACTS_STEP, f"{FACTS_STEP}.{revision}", nodes, words, site.plan.deployments[0].server.image)


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
    container = container_of(site, unique, image)
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


def container_of(site: StepSite, unique: str, image: str | None) -> Container:
    """The container of a step. The run's folder appears in it under its own path, unless the profile mounts it."""
    where = site.plan.site
    if image is None or where.container == "none":
        return None
    mounts = tuple(Mount(source=m.source, target=m.target, read_only=m.read_only) for m in where.mounts)
    mounts += tuple(_own_mounts(where, site.run_root))
    if where.container == "apptainer":
        return Apptainer(image=image, mounts=mounts, settings=(Setting(name="PYTHONPATH", value=site.bundle),))
    name = container_name(site.job_id, unique)
    return Pyxis(image=image, mounts=mounts, environment=_FROM_OUTSIDE, name=name)


def _own_mounts(where: SitePlan, run_root: str) -> Sequence[Mount]:
    covered = any(
        mount.source == mount.target and not mount.read_only and f"{run_root}/".startswith(f"{mount.source}/")
        for mount in where.mounts
    )
    return () if covered else (Mount(source=run_root, target=run_root),)
