"""What vLLM can do, per version. A version that is not known is treated as the newest.

Source: nine wheels from 0.10.2 to 0.33.0 and their release notes; a feature that came between two of them is counted
from the later one, which is the safe side.
"""

from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from packaging.version import InvalidVersion, Version

Feature: TypeAlias = Literal[
    "multi-node-mp",  # --nnodes, --node-rank, --master-addr, --master-port
    "external-lb",  # --data-parallel-rank for one process per rank
    "distributed-timeout",  # --distributed-timeout-seconds
    "uuid-masks",  # UUIDs in CUDA_VISIBLE_DEVICES do not raise
]

_SINCE: dict[Feature, Version] = {
    "multi-node-mp": Version("0.11.1"),
    "external-lb": Version("0.10.2"),
    "distributed-timeout": Version("0.20.2"),
    "uuid-masks": Version("0.24.0"),
}


class VllmVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A release as vLLM spells it, for example ``0.32.0+cpu``; None when nobody knows."""

    text: str | None

    def has(self, feature: Feature) -> bool:
        """Whether it can do that. An unknown version can."""
        parsed = parse_version(self.text) if self.text else None
        return parsed is None or parsed >= _SINCE[feature]


def since(feature: Feature) -> str:
    """The first version that is known to have it."""
    return str(_SINCE[feature])


@lru_cache(maxsize=64)  # thousands of nodes have the same few versions
def parse_version(text: str) -> Version | None:
    """The comparable part of a version, without its local label; None for text that is no version."""
    try:
        return Version(Version(text).public)
    except InvalidVersion:
        return None
