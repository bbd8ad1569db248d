"""What the process that fetches a model says at its end. Runs inside the serving container: msgspec only."""

from typing import Literal, TypeAlias

import msgspec

FetchFailure: TypeAlias = Literal[
    "unknown", "gated", "no-revision", "unreachable", "no-space", "not-writable", "no-tool", "failed"
]


class Fetched(msgspec.Struct, frozen=True, kw_only=True, tag="fetched", tag_field="kind"):
    """All of it is in the cache."""

    path: str


class FetchFailed(msgspec.Struct, frozen=True, kw_only=True, tag="fetch-failed", tag_field="kind"):
    """It is not; `detail` is in the words of the tool."""

    cause: FetchFailure
    detail: str


FetchAnswer: TypeAlias = Fetched | FetchFailed
