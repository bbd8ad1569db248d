"""What can be said about placements while other parts of the run file are still wrong: so that all comes at once."""

from collections.abc import Iterator

from core.config.read import Draft
from core.config.run_config import RunConfig
from core.outcome import problems_of
from core.plan.topology import place
from core.problem import Problem

_READ_BY_PLACEMENT = ("resources", "topology", "server.enable_expert_parallel")


def placement_problems(run: Draft[RunConfig], gpus_per_node: int | None) -> Iterator[Problem]:
    """Deployments that do not fit on their nodes, of those whose own sizes nobody objects to.

    Deployments that share a node depend on each other and are judged together; a budget decides the nodes of all.
    """
    config = run.located.value
    sound = [_sizes_are_sound(run, index) for index in range(len(config.deployments))]
    places = [run.located.at(f"deployments[{index}].topology") for index in range(len(config.deployments))]
    if config.gpu_budget is not None or not run.place.sound("gpu_budget"):
        return
    if any(deployment.resources.shared_node is not None for deployment in config.deployments):
        yield from problems_of(place(config.deployments, gpus_per_node, places)) if all(sound) else ()
        return
    for deployment, at, is_sound in zip(config.deployments, places, sound, strict=True):
        if is_sound:
            yield from problems_of(place((deployment,), gpus_per_node, (at,)))


def _sizes_are_sound(run: Draft[RunConfig], index: int) -> bool:
    spot = run.place.item("deployments", index)
    judged = tuple(spot.into(name).path for name in _READ_BY_PLACEMENT)
    return spot.sound(*_READ_BY_PLACEMENT) and not any(p.at.path.startswith(judged) for p in run.problems)
