"""What one node says about itself. Written by `shell.node facts`, judged by `core.plan.bind`.

Runs inside the serving container: standard library and msgspec only.
"""

from typing import Literal, TypeAlias

import msgspec

from core.units import Alias, NodeName

PathKind: TypeAlias = Literal["file", "directory", "executable"]
PathState: TypeAlias = Literal["fine", "missing", "unreadable", "wrong-type", "stale"]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """An address and the interface that carries it: ``ib0``, ``10.1.0.7``. Link-local ones are left out."""

    interface: str
    address: str


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a process of the step can use.

    `variable` is the one that masks (``CUDA_VISIBLE_DEVICES`` or ``ROCR_VISIBLE_DEVICES``), `mask` its value as found:
    None when unset, empty when no GPU is granted. `present` counts the devices that can really be opened, None when
    that cannot be told. Whether they are renumbered follows from both (`core.plan.masks`).
    """

    variable: str
    mask: str | None
    present: int | None


class PathWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A path that must be usable on the node, as seen from where the servers run."""

    path: str
    kind: PathKind


class PathFact(msgspec.Struct, frozen=True, kw_only=True):
    """What was found there. `detail` is the system's own text, for people."""

    path: str
    kind: PathKind
    state: PathState
    detail: str = ""
    weight_bytes: int | None = None
    """What a server reads from a model there; None where there are no weights, or where that cannot be told in time."""


class HubWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A repository of the hub that servers of a deployment need. `variables` are what the run file sets for them."""

    alias: Alias
    model: str
    revision: str | None
    variables: tuple[tuple[str, str], ...]


class HubFact(msgspec.Struct, frozen=True, kw_only=True):
    """What the node's cache of the hub has of a repository.

    Two nodes with the same `place` have one cache. `offline` is True where the environment forbids downloads.
    """

    alias: Alias
    model: str
    cache: str
    place: str
    filesystem: str
    whole: bool
    offline: bool
    weight_bytes: int | None = None


class FactsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What every node of the allocation is asked; a file, the same for all nodes."""

    paths: tuple[PathWanted, ...]
    executables: tuple[str, ...]
    """Looked up on PATH unless absolute; the first is asked for its vLLM version when `ask_vllm_version`."""
    ask_vllm_version: bool
    hub: tuple[HubWanted, ...] = ()
    output_dir: str
    """Each node writes ``<output_dir>/<node>.json``, atomically."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `node` is Slurm's spelling (SLURMD_NODENAME), `hostname` what the node calls itself."""

    node: NodeName
    hostname: str
    addresses: tuple[Address, ...]
    ephemeral_low: int
    ephemeral_high: int
    taken_ports: tuple[int, ...]
    """Listening on any address, sorted. Remains in TIME_WAIT do not count."""
    devices: Devices
    cpus: int
    memory_mib: int
    shm_mib: int
    nofile_soft: int
    nofile_hard: int
    python_version: str
    vllm_version: str | None
    paths: tuple[PathFact, ...]
    hub: tuple[HubFact, ...] = ()
    vllm_of: tuple[tuple[Alias, str | None], ...] = ()
    """The version per deployment, where several images were asked on the node; else `vllm_version` is that of all."""

    def vllm(self, alias: Alias) -> str | None:
        """Which vLLM servers of this deployment would be."""
        return dict(self.vllm_of).get(alias, self.vllm_version)
