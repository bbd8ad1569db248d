"""How a process must name the GPUs of a node, whatever Slurm, a cgroup or a container did to their numbers."""

from collections.abc import Iterator

from core.plan.facts import Devices
from core.problem import At, DeviceMaskUnfit, Problem
from core.vllm.versions import VllmVersion, since

_NO_DEVICE = frozenset({"", "-1", "none", "void", "NoDevFiles"})


def gpu_names(devices: Devices) -> tuple[str, ...]:
    """One entry per usable GPU or MIG slice: what goes into the mask variable to use it.

    An unset mask means all devices that are there, an empty one means none. When exactly as many devices can be opened
    as the mask has indices, a cgroup hides the others and the rest are numbered from 0, so ``4,5,6,7`` means ``0-3``.
    """
    if devices.mask is None:
        return tuple(map(str, range(devices.present or 0)))
    entries = tuple(entry.strip() for entry in devices.mask.split(","))
    if entries[0] in _NO_DEVICE:
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
        reason = f"a MIG slice cannot be part of a tensor group, and {largest_group} GPUs per process are planned"
        yield DeviceMaskUnfit(at=at, mask=devices.mask or "", reason=reason)
    if any(not name.isdecimal() for name in names) and not version.has("uuid-masks"):
        reason = f"vLLM {version.text} reads indices only; UUIDs work from {since('uuid-masks')} on"
        yield DeviceMaskUnfit(at=at, mask=devices.mask or "", reason=reason)
