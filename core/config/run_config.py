"""What a user asks for: the run file (schema_version 1), field by field, after its form has been checked.

The names and defaults are the documented ones of the format; fields that only we have are marked (new). Durations
stay in the author's spelling; `core.config.durations` reads them. The types of single values are in
`core.config.fields`.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from core.config.fields import (
    FROM_MAPPING,
    AbsolutePath,
    Count,
    Duration,
    DurationOrZero,
    GpuBudget,
    GpusOfNode,
    Id,
    JsonText,
    NodeCount,
    OneLine,
    Partitions,
    Positive,
    TimeLimit,
    VariableName,
    VersionText,
    Word,
)
from core.units import Alias


class LiteralValue(msgspec.Struct, frozen=True, kw_only=True, tag="literal", tag_field="type"):
    """A value that stands in the file."""

    value: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A[^\x00]*\Z", max_length=4096, description="a text of at most 4096 characters without U+0000"
        ),
    ]


class SecretRef(msgspec.Struct, frozen=True, kw_only=True, tag="secret", tag_field="type"):
    """A value that is read from the submitter's environment and never written down."""

    environment: VariableName


EnvValue: TypeAlias = LiteralValue | SecretRef


class EnvEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One variable for a process."""

    name: VariableName
    value: EnvValue


class PlainEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One variable whose value is no secret."""

    name: VariableName
    value: str


class Builder(msgspec.Struct, frozen=True, kw_only=True):
    """Where the Data Designer config comes from: exactly one of a file beside the run file, or the config itself."""

    source: OneLine | None = None
    inline: JsonText | None = None


class InputBindings(msgspec.Struct, frozen=True, kw_only=True):
    """Paths that replace those of the Data Designer config."""

    seed_path: AbsolutePath | None = None
    managed_assets_path: AbsolutePath | None = None


class SseMcp(msgspec.Struct, frozen=True, kw_only=True, tag="sse", tag_field="provider_type"):
    """An MCP server reached by server-sent events."""

    name: Id
    endpoint: str
    api_key: SecretRef | None = None


class HttpMcp(msgspec.Struct, frozen=True, kw_only=True, tag="streamable_http", tag_field="provider_type"):
    """An MCP server reached by streamable HTTP."""

    name: Id
    endpoint: str
    api_key: SecretRef | None = None


class StdioMcp(msgspec.Struct, frozen=True, kw_only=True, tag="stdio", tag_field="provider_type"):
    """An MCP server started as a child of the client."""

    name: Id
    command: Annotated[
        str, msgspec.Meta(pattern=r"\A[^\s\x00-\x1f\x7f]+\Z", description="one executable, without arguments or blanks")
    ]
    args: tuple[OneLine, ...] = ()
    environment: Annotated[tuple[EnvEntry, ...], FROM_MAPPING] = ()


McpProvider: TypeAlias = SseMcp | HttpMcp | StdioMcp


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests of one model the client keeps in flight."""

    name: Alias
    value: Positive


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """What Data Designer is asked to make."""

    num_records: Positive
    dataset_name: Id = "dataset"
    resume: Literal["never", "always", "if_possible"] = "never"
    run_config: JsonText = "{}"
    input_bindings: InputBindings = InputBindings()
    mcp_providers: tuple[McpProvider, ...] = ()
    model_concurrency: Annotated[tuple[Concurrency, ...], FROM_MAPPING] = ()


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A secret for one package index."""

    name: str
    value: SecretRef


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What the client needs besides Data Designer: requirements or a lock file."""

    requirements: tuple[OneLine, ...] | None = ()
    lock_file: OneLine | None = None
    index_credentials: Annotated[tuple[Credential, ...], FROM_MAPPING] = ()


class ImageRef(msgspec.Struct, frozen=True, kw_only=True):
    """A container image: a name that the profile knows, or a path."""

    name: Id | None = None
    path: AbsolutePath | None = None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """The program that uses the models. `command` (new) replaces Data Designer by any other program."""

    cpus: Positive = 16
    dependencies: Dependencies | None = None
    image: ImageRef | OneLine | None = None
    command: Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)] | None = None


class QueueBackpressure(msgspec.Struct, frozen=True, kw_only=True):
    """When a server says 429: more than so many requests waiting in it."""

    max_waiting_requests: Count = 128
    retry_after_seconds: Positive | None = 1


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """How vLLM is run for one deployment."""

    type: Literal["vllm"] = "vllm"
    image: ImageRef | None = None
    startup_timeout: Duration = "15m"
    distributed_init_timeout: Duration = "10m"
    lead_boot_standoff: DurationOrZero = "60s"
    rank_launch_stagger: DurationOrZero = "5s"
    readiness_path: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A/(?!/)((?![?#])[!-~])*\Z",
            description="a path of the server's API without blanks, '?' and '#', such as /health",
        ),
    ] = "/health"
    enable_expert_parallel: bool = False
    io_processor_plugin: Id | None = None
    queue_backpressure: QueueBackpressure | None = QueueBackpressure()
    extra_args: tuple[OneLine, ...] = ()
    environment: Annotated[tuple[EnvEntry, ...], FROM_MAPPING] = ()
    executor: Literal["auto", "uni", "mp", "ray"] = "auto"
    vllm_version: VersionText | None = None
    executable: OneLine | None = None


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of a deployment; or its share of one node, together with others of the same `shared_node`."""

    nodes: NodeCount = 1
    shared_node: Id | None = None
    gpus_per_node: GpusOfNode | None = None
    gpu_start_index: Count | None = None


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica is cut into ranks. What is left out is derived (`core.plan.topology`)."""

    tensor_parallel: Positive = 1
    pipeline_parallel: Positive | None = None
    data_parallel: Positive = 1
    expert_parallel: bool = False
    nodes_per_replica: Positive | None = None
    load_balancing: Literal["auto", "internal", "hybrid", "external"] = "auto"


class OnFailure(msgspec.Struct, frozen=True, kw_only=True):
    """(new) What happens when a replica dies while serving."""

    policy: Literal["fail", "restart"] = "fail"
    max_restarts: Count = 3
    backoff: Duration = "10s"


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """One model and its servers."""

    model_alias: Id
    model: OneLine
    served_model_name: OneLine | None = None
    server: Server = Server()
    resources: Resources = Resources()
    topology: Topology = Topology()
    on_failure: OnFailure = OnFailure()
    min_ready_replicas: Positive | None = None

    @property
    def served_name(self) -> str:
        """The name that requests carry."""
        return self.served_model_name or self.model


class ArrayTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Over how many Slurm array tasks the records are split."""

    count: Positive = 1
    max_concurrent: Positive | None = None


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What sbatch is asked for."""

    account: Id | None = None
    partition: Partitions | tuple[Id, ...] | None = None
    job_name: Id = "data-designer"
    time_limit: TimeLimit = "03:55:00"
    comment: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"\A[^\x00-\x1f\x7f]+\Z",
                max_length=256,
                description="a text of one line and at most 256 characters",
            ),
        ]
        | None
    ) = None


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What the merged dataset looks like."""

    format: Literal["parquet", "jsonl", "csv"] = "parquet"
    partitions: Positive | None = None
    require_exact_record_count: bool = False


class OnTimeLimit(msgspec.Struct, frozen=True, kw_only=True):
    """(new) What happens before the walltime ends."""

    resume: Literal["auto", "manual"] = "manual"
    margin: Duration = "5m"


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run file."""

    schema_version: Literal[1]
    name: Id
    deployments: Annotated[tuple[Deployment, ...], msgspec.Meta(min_length=1)]
    invocation: Invocation | None = None
    builder: Builder | None = None
    client: Client = Client()
    array_tasks: ArrayTasks = ArrayTasks()
    submission: Submission = Submission()
    output: Output = Output()
    on_time_limit: OnTimeLimit = OnTimeLimit()
    gpu_budget: GpuBudget | None = None
