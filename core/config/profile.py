"""What a site is: one cluster of the profile catalog (schema_version 1), after its form has been checked."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from core.config.fields import (
    FROM_MAPPING,
    AbsolutePath,
    GpusOfNode,
    Id,
    OneLine,
    Partitions,
    Positive,
    TimeLimit,
    VersionText,
)

MemorySize: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A[1-9][0-9]{0,8}[KMGT]?\Z", description="an amount of memory such as 80G")
]


ReadRate: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"\A[1-9][0-9]{0,5}[MGT]\Z", description="bytes per second such as 500M or 2G")
]


HostPattern: TypeAlias = Annotated[
    str,
    msgspec.Meta(pattern=r"\A[^\s/\x00-\x1f\x7f]+\Z", description="a pattern of host names such as login*.example.org"),
]
PortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=1024, le=65535)]


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for sbatch, and where Slurm's commands are."""

    account: Id | None = None
    partition: Partitions | tuple[Id, ...] | None = None
    mem_per_gpu: MemorySize | None = None
    bin_path: AbsolutePath | None = None


class ImageBuild(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of the job that imports an image."""

    partition: Id | None = None
    cpus_per_task: Positive | None = None
    memory: MemorySize | None = None
    time_limit: TimeLimit | None = None


class ContainerMount(msgspec.Struct, frozen=True, kw_only=True):
    """A host folder that servers and client see at `target`."""

    source: AbsolutePath
    target: AbsolutePath
    read_only: bool = False


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """(new) What an image name means here: a file on the cluster or a URI."""

    path: AbsolutePath | None = None
    uri: OneLine | None = None
    vllm_version: VersionText | None = None
    sha256: (
        Annotated[
            str,
            msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z", description="a SHA-256 digest: 64 digits and letters a to f"),
        ]
        | None
    ) = None


class NamedImage(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `images`."""

    name: Id
    value: Image


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """(new) The interface that carries traffic between nodes, for example ``ib0``."""

    interface: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"\A[A-Za-z0-9._:@-]{1,64}\Z", description="the name of a network interface such as ib0"
            ),
        ]
        | None
    ) = None


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """(new) The first and the last port that servers may use."""

    range: Annotated[tuple[PortNumber, PortNumber], msgspec.Meta(description="two ports, such as [20000, 29999]")]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster."""

    workspace_root: AbsolutePath
    schema_version: Literal[1] = 1
    host_patterns: tuple[HostPattern, ...] = ()
    scheduler: Scheduler = Scheduler()
    gpus_per_node: GpusOfNode | Literal["auto"] = "auto"
    gpu_request_mode: Literal["gres", "visible"] = "gres"
    image_build: ImageBuild | None = None
    container_mounts: tuple[ContainerMount, ...] = ()
    images: Annotated[tuple[NamedImage, ...], FROM_MAPPING] = ()
    container: Literal["pyxis", "apptainer", "none"] | None = None
    network: Network = Network()
    slurm_version: (
        Annotated[
            str,
            msgspec.Meta(
                pattern=r"\A[0-9]{2}\.[0-9]{2}(\.[0-9]{1,4})?\Z", description="a version in quotes such as '23.11'"
            ),
        ]
        | None
    ) = None
    srun_extra_args: tuple[OneLine, ...] = ()
    ports: Ports | None = None
    storage_read_rate: ReadRate = "1G"


class NamedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `clusters`."""

    name: Id
    value: Profile


class ProfileCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    schema_version: Literal[1]
    clusters: Annotated[tuple[NamedCluster, ...], FROM_MAPPING, msgspec.Meta(min_length=1)]
    default_cluster: Id | None = None
