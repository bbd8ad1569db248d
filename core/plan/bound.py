"""What is done with what Slurm gave: the plan that every node reads. Names, addresses, ports and masks live here only.

Derived values are not stored: `core.plan.steps` gives the job steps of a plan and the processes of a node,
`core.vllm.serve_args` the command of a process. Structs of which a large plan has thousands are `gc=False`: nothing in
them can form a cycle. Runs inside the serving container: standard library and msgspec only.
"""

from typing import Literal, TypeAlias

import msgspec

from core.units import Alias, NodeName, Port, StepName


class EnvVar(msgspec.Struct, frozen=True, kw_only=True, tag="value", tag_field="kind"):
    """A variable whose value may be read by anybody."""

    name: str
    value: str


class EnvSecret(msgspec.Struct, frozen=True, kw_only=True, tag="secret", tag_field="kind"):
    """A variable whose value is taken from `environment` of the node worker at the moment of the start."""

    name: str
    environment: str


EnvItem: TypeAlias = EnvVar | EnvSecret


class BoundNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node of the allocation in planner order; its index in `BoundPlan.nodes` is its slot."""

    name: NodeName
    address: str
    interface: str | None
    gpu_variable: str
    gpus: tuple[str, ...]
    """How a process must name GPU 0, 1, … of this node in its mask."""


class Serving(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="serving", tag_field="kind"):
    """The process has an HTTP API of its own."""

    http_port: Port


class Headless(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="headless", tag_field="kind"):
    """The process only carries workers or engines."""


Role: TypeAlias = Serving | Headless


class Lane(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One ``vllm serve`` process.

    `rank` counts the processes of its replica from 0. `internal_port` is the start of the process's own range of
    `INTERNAL_PORTS` ports (VLLM_PORT), None where a tensor group spans nodes.
    """

    slot: int
    rank: int
    gpu_indices: tuple[int, ...]
    role: Role
    internal_port: Port | None
    launch_delay_ms: int


class Replica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One engine (or one data-parallel group): the failure domain. Its leader is `lanes[0]`.

    `master_port` is the rendezvous of ranks over nodes, `rpc_port` that of data-parallel ranks; both on the leader's
    node, None where nothing meets there.
    """

    index: int
    identity: str
    """A served name that only this replica of this attempt has."""
    lanes: tuple[Lane, ...]
    master_port: Port | None = None
    rpc_port: Port | None = None


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """How a replica is cut. `nodes` are the nodes of one replica."""

    tensor: int
    pipeline: int
    data: int
    expert: bool
    nodes: int
    load_balancing: Literal["none", "internal", "hybrid", "external"]

    @property
    def world(self) -> int:
        """Ranks of one replica, over all its processes."""
        return self.tensor * self.pipeline * self.data


class BoundDeployment(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `arguments` and `environment` are the same for all its processes."""

    alias: Alias
    served_name: str
    executable: tuple[str, ...]
    model: str
    """As the server sees it: inside the container, or a hub id."""
    parallel: Parallel
    arguments: tuple[str, ...]
    environment: tuple[EnvItem, ...]
    readiness_path: str
    startup_timeout_ms: int
    replicas_per_step: int
    """More than 1 only when there would be too many steps otherwise."""
    replicas: tuple[Replica, ...]


class BoundEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The one address of a model for the client, on the client's host."""

    alias: Alias
    address: str
    port: Port


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """One process fetches a model of the hub into the cache that `nodes` nodes share, before servers start.

    It runs as a step of its own with the variables of the deployment. `revision` None is the hub's default.
    """

    step: StepName
    alias: Alias
    model: str
    revision: str | None
    slot: int
    nodes: int


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """Which try of which shard this is."""

    run_id: str
    shard: int
    number: int
    job_id: str


class BoundPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one attempt that servers need. `client_slot` is where client and endpoints are."""

    schema_version: int
    attempt: Attempt
    nodes: tuple[BoundNode, ...]
    client_slot: int
    grace_ms: int
    """From TERM to KILL of a process."""
    bundle: str
    """The folder that holds our own packages, as servers see it; first on their PYTHONPATH."""
    deployments: tuple[BoundDeployment, ...]
    downloads: tuple[Download, ...] = ()
    endpoints: tuple[BoundEndpoint, ...]
