"""GPUs that a process of this step can use. Runs inside the serving container: standard library only."""

import os
import re
from collections.abc import Mapping

from core.plan.facts import Devices

_NVIDIA = re.compile(r"nvidia\d+")
_RENDER = re.compile(r"renderD\d+")


def granted_devices(environ: Mapping[str, str], dev: str = "/dev") -> Devices:
    """The mask as it was found, and how many devices can really be opened: a cgroup may forbid some that are there.

    Slurm sets the masks of both makers for whatever GPUs a node has, so the devices decide, and the masks only where
    no device is found.
    """
    nvidia = _openable(dev, _NVIDIA)
    amd = _openable(f"{dev}/dri", _RENDER) if os.path.exists(f"{dev}/kfd") else 0
    cuda_mask, rocr_mask = environ.get("CUDA_VISIBLE_DEVICES"), environ.get("ROCR_VISIBLE_DEVICES")
    masked_for_amd = cuda_mask is None and rocr_mask is not None
    if not nvidia and (amd or masked_for_amd):
        return Devices(variable="ROCR_VISIBLE_DEVICES", mask=rocr_mask, present=amd or None)
    return Devices(variable="CUDA_VISIBLE_DEVICES", mask=cuda_mask, present=nvidia or None)


def _openable(folder: str, name: re.Pattern[str]) -> int:
    try:
        found = [entry for entry in os.listdir(folder) if name.fullmatch(entry)]
    except OSError:
        return 0
    return sum(_opens(f"{folder}/{entry}") for entry in found)


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True
