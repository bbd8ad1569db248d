"""Job steps of a plan, and the processes that one node runs for a step. Both are derived, never stored.

A step is a failure domain: one replica; only when there would be too many steps it carries several. Runs inside the
serving container: standard library and msgspec only.
"""

from collections.abc import Iterator

import msgspec

from core.plan.bound import BoundDeployment, BoundPlan, Download, Headless, Lane, Replica, Serving
from core.units import Alias, NodeName, StepName


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One ``srun``: one node worker on each node of `slots` (ascending)."""

    name: StepName
    alias: Alias
    replicas: tuple[int, ...]
    slots: tuple[int, ...]


class LaneOf(msgspec.Struct, frozen=True, kw_only=True):
    """A process and what it belongs to. `name` is unique in the attempt, for logs: ``writer-0.r1``."""

    name: str
    deployment: BoundDeployment
    replica: Replica
    lane: Lane


def steps_of(plan: BoundPlan) -> tuple[Step, ...]:
    """The server steps, in the order of the run file."""
    return tuple(step for deployment in plan.deployments for step in _steps_of(deployment))


def _steps_of(deployment: BoundDeployment) -> Iterator[Step]:
    for name, group in _groups(deployment):
        yield Step(
            name=name,
            alias=deployment.alias,
            replicas=tuple(replica.index for replica in group),
            slots=tuple(sorted({lane.slot for replica in group for lane in replica.lanes})),
        )


def _groups(deployment: BoundDeployment) -> Iterator[tuple[StepName, tuple[Replica, ...]]]:
    """The replicas of each step. A deployment has few steps, however many replicas it has."""
    size = deployment.replicas_per_step
    for first in range(0, len(deployment.replicas), size):
        group = deployment.replicas[first : first + size]
        yield step_name(deployment, group[0].index), group


def step_name(deployment: BoundDeployment, replica: int) -> StepName:
    """The step that a replica belongs to."""
    return StepName(f"{deployment.alias}-{replica - replica % deployment.replicas_per_step}")


def lanes_on(plan: BoundPlan, step: StepName, node: NodeName) -> tuple[LaneOf, ...]:
    """What the node worker on `node` runs for `step`; empty for a node or step that is not in the plan."""
    slots = {slot for slot, bound in enumerate(plan.nodes) if bound.name == node}
    return tuple(
        LaneOf(
            name=f"{deployment.alias}-{replica.index}.r{lane.rank}",
            deployment=deployment,
            replica=replica,
            lane=lane,
        )
        for deployment in plan.deployments
        for name, group in _groups(deployment)
        if name == step
        for replica in group
        for lane in replica.lanes
        if lane.slot in slots
    ) + tuple(download_lane(plan, one) for one in plan.downloads if one.step == step and one.slot in slots)


def download_step(download: Download) -> Step:
    """The step that fetches a model."""
    return Step(name=download.step, alias=download.alias, replicas=(), slots=(download.slot,))


def download_lane(plan: BoundPlan, download: Download) -> LaneOf:
    """The process that fetches a model: like one of the deployment's servers, without a GPU and without an API."""
    lane = Lane(slot=download.slot, rank=0, gpu_indices=(), role=Headless(), internal_port=None, launch_delay_ms=0)
    return LaneOf(
        name=download.step,
        deployment=next(d for d in plan.deployments if d.alias == download.alias),
        replica=Replica(index=0, identity=download.step, lanes=(lane,)),
        lane=lane,
    )


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """How to ask whether a process serves: all of `names` must be in its list of models."""

    base_url: str
    readiness_path: str
    names: tuple[str, ...]


def url_of(address: str, port: int) -> str:
    """``http://10.0.0.5:8000``, with brackets round an IPv6 address."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def probes_of(plan: BoundPlan, step: Step) -> tuple[Probe, ...]:
    """One per process with an API, in order."""
    deployment = next(d for d in plan.deployments if d.alias == step.alias)
    return tuple(
        Probe(
            base_url=url_of(plan.nodes[lane.slot].address, lane.role.http_port),
            readiness_path=deployment.readiness_path,
            names=(deployment.served_name, replica.identity),
        )
        for replica in (deployment.replicas[index] for index in step.replicas)
        for lane in replica.lanes
        if isinstance(lane.role, Serving)
    )
