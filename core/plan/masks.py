"""How a process must name the GPUs of a node, whatever Slurm, a cgroup or a container did to their numbers."""

import itertools
from collections.abc import Iterator
from functools import lru_cache

from core.plan.facts import Devices
from core.problem import At, DeviceMaskUnfit, Problem
from core.vllm.versions import VllmVersion, since

_NO_DEVICE = frozenset({"", "-1", "none", "void", "NoDevFiles"})


@lru_cache(maxsize=64)  # thousands of nodes have the same few masks
def gpu_names(devices: Devices) -> tuple[str, ...]:
    """One entry per usable GPU or MIG slice: what goes into the mask variable to use it.

    An unset mask means all devices that are there, an empty one means none, and what follows a word that names no
    device does not count (as CUDA reads it). When exactly as many devices can be opened
    as the mask has indices, a cgroup hides the others and the rest are numbered from 0, so ``4,5,6,7`` means ``0-3``.
    """
    if devices.mask is None:
        return tuple(map(str, range(devices.present or 0)))
    words = (word.strip() for word in devices.mask.split(","))
    entries = tuple(itertools.takewhile(lambda word: word not in _NO_DEVICE, words))
    if not entries:
        return ()
    constrained = devices.present is not None and devices.present <= len(entries)
    if constrained and all(entry.isdecimal() for entry in entries):
        return tuple(map(str, range(devices.present or 0)))
    return entries


def mask_problems(devices: Devices, largest_group: int, version: VllmVersion, at: At) -> Iterator[Problem]:
    """Whether vLLM can read the mask, and whether slices are asked to work as one GPU.

    `largest_group` is the largest number of GPUs that one process uses.
    """
    names = gpu_names(devices)
    if any(name.startswith("MIG-") for name in names) and largest_group > 1:
        reason = f"a MIG slice works alone, and {largest_group} GPUs per replica and node are planned"
        instead = "tensor_parallel 1 and pipeline_parallel 1 on MIG slices, or nodes with whole GPUs"
        yield DeviceMaskUnfit(at=at, mask=devices.mask or "", reason=reason, instead=instead)
    if any(not name.isdecimal() for name in names) and not version.has("uuid-masks"):
        reason = f"vLLM {version.text} reads indices only; UUIDs work from {since('uuid-masks')} on"
        instead = f"vLLM {since('uuid-masks')} or newer, or indices (a GRES without env_uuid)"
        yield DeviceMaskUnfit(at=at, mask=devices.mask or "", reason=reason, instead=instead)
