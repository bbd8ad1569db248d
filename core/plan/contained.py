"""Which container the servers of a deployment run in, and what of it the runtime has no words for."""

from collections.abc import Iterator, Sequence

import msgspec

from core.config.run_config import SecretRef
from core.layout import run_paths
from core.plan.model import DeploymentPlan, RunPlan, SitePlan
from core.plan.server_args import SERVER_TOKEN
from core.problem import At, Malformed, PyxisMissing
from core.slurm.containers import Apptainer, Container, Mount, Pyxis, Setting, container_problems
from core.slurm.plugins import offers_pyxis


def container_of(plan: RunPlan, image: str | None, run_root: str, bundle: str, name: str) -> Container:
    """The container of a step; None where steps run natively.

    Our packages come from the bundle and secrets from the submitter, whatever the image says. The run's folder appears
    under its own path, unless the profile mounts it, and is where servers start.
    """
    where = plan.site
    if image is None or where.container == "none":
        return None
    mounts = tuple(Mount(source=m.source, target=m.target, read_only=m.read_only) for m in where.mounts)
    mounts += tuple(_own_mounts(where, run_root))
    settings = (Setting(name="PYTHONPATH", value=bundle),)
    secrets = tuple(_secrets([d for d in plan.deployments if d.server.image == image]))
    if where.container == "apptainer":
        return Apptainer(image=image, mounts=mounts, settings=settings, environment=secrets, workdir=run_root)
    return Pyxis(image=image, mounts=mounts, settings=settings, environment=secrets, workdir=run_root, name=name)


def _own_mounts(where: SitePlan, run_root: str) -> Sequence[Mount]:
    """Nothing where the mount that shows this path shows the folder itself, for writing."""
    holding = [mount for mount in where.mounts if f"{run_root}/".startswith(f"{mount.target}/")]
    nearest = max(holding, key=lambda mount: len(mount.target), default=None)
    own = nearest is not None and nearest.source == nearest.target and not nearest.read_only
    return () if own else (Mount(source=run_root, target=run_root),)


def _secrets(deployments: Sequence[DeploymentPlan]) -> Iterator[str]:
    """Names of variables whose values servers take from the environment of their job."""
    found = [
        entry.value.environment
        for deployment in deployments
        for entry in deployment.server.environment
        if isinstance(entry.value, SecretRef)
    ]
    yield from dict.fromkeys((SERVER_TOKEN, *found))


def needs_pyxis(plan: RunPlan) -> bool:
    """Whether steps of the plan enter containers through Slurm's plug-in."""
    return plan.site.container == "pyxis"


def pyxis_problems(plan: RunPlan, srun_help: str) -> Iterator[PyxisMissing]:
    """Whether the cluster whose ``srun --help`` this is has the plug-in."""
    if needs_pyxis(plan) and not offers_pyxis(srun_help):
        yield PyxisMissing(at=At(source=f"cluster {plan.site.cluster}", path="container"))


def unsayable(plan: RunPlan, images_at: Sequence[At]) -> Iterator[Malformed]:
    """What cannot be said of the containers of these deployments. `images_at` says where each names its image."""
    run = run_paths(plan.site.workspace_root, plan.name)
    found: dict[Malformed, None] = {}
    for deployment, image_at in zip(plan.deployments, images_at, strict=True):
        container = container_of(plan, deployment.server.image, run.root, f"{run.root}/bundle.zip", "name")
        for problem in container_problems(container, At(source="")):
            found[msgspec.structs.replace(problem, at=_place(plan.site, problem.at.path, image_at))] = None
    yield from found


def _place(site: SitePlan, path: str, image_at: At) -> At:
    """Where the author wrote it. What is not written anywhere follows from the workspace."""
    if path == "image":
        return image_at
    source = f"cluster {site.cluster}"
    authored = {
        f"mounts[{index}].{end}": f"container_mounts[{index}].{end}"
        for index in range(len(site.mounts))
        for end in ("source", "target")
    }
    return At(source=source, path=authored.get(path, "workspace_root"))
