"""What is asked of Slurm, before anything is granted: no host name, no address, no port, no device."""

from typing import Literal, TypeAlias

import msgspec

from core.config.profile import ContainerMount
from core.config.run_config import (
    Dependencies,
    EnvEntry,
    Invocation,
    OnFailure,
    OnTimeLimit,
    Output,
    QueueBackpressure,
)
from core.plan.topology import Placement
from core.units import Alias
from core.vllm.executor import Executor

ContainerRuntime: TypeAlias = Literal["pyxis", "apptainer", "none"]


class AllocationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What sbatch is asked for. `gpus_per_node` is None when nodes are taken whole (`gpu_request_mode: visible`)."""

    nodes: int
    gpus_per_node: int | None
    mem_per_gpu: str | None
    account: str | None
    partitions: tuple[str, ...]
    job_name: str
    time_limit: str
    comment: str | None
    client_cpus: int
    array_count: int
    max_concurrent: int


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the processes of a deployment are run; all of them alike."""

    executor: Executor
    vllm_version: str | None
    image: str | None
    executable: str
    model: str
    """As the server sees it: through the container's mounts, or a hub id."""
    startup_timeout_ms: int
    distributed_init_timeout_ms: int
    standoff_ms: int
    stagger_ms: int
    readiness_path: str
    backpressure: QueueBackpressure | None
    extra_args: tuple[str, ...]
    environment: tuple[EnvEntry, ...]


class DeploymentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One model: where, how, and what happens when it fails."""

    alias: Alias
    served_name: str
    placement: Placement
    server: ServerPlan
    on_failure: OnFailure
    min_ready_replicas: int | None


class DataDesignerClient(msgspec.Struct, frozen=True, kw_only=True, tag="data-designer", tag_field="kind"):
    """Data Designer with a config of its own. `source` is relative to the run file; None when it is inline."""

    source: str | None
    inline: str | None
    dependencies: Dependencies | None


class CommandClient(msgspec.Struct, frozen=True, kw_only=True, tag="command", tag_field="kind"):
    """Any program that speaks to an OpenAI endpoint."""

    command: tuple[str, ...]


ClientPlan: TypeAlias = DataDesignerClient | CommandClient


class SitePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan takes over from the profile of the cluster."""

    cluster: str
    workspace_root: str
    container: ContainerRuntime
    mounts: tuple[ContainerMount, ...]
    interface: str | None
    ports: tuple[int, int] | None
    slurm_version: str | None
    slurm_bin: str | None
    srun_extra_args: tuple[str, ...]
    storage_read_rate: int
    """Bytes per second that one node is taken to read of model weights."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is decided before submission. `notes` say where the planner chose, and why."""

    schema_version: int
    name: str
    site: SitePlan
    request: AllocationRequest
    deployments: tuple[DeploymentPlan, ...]
    client: ClientPlan
    invocation: Invocation
    output: Output
    on_time_limit: OnTimeLimit
    notes: tuple[str, ...]
