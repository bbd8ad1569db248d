"""Why something ended, and how the whole attempt did."""

from typing import TypeAlias

import msgspec

from core.units import Alias, NodeName, StepName


class RankExited(msgspec.Struct, frozen=True, kw_only=True, tag="rank-exited", tag_field="kind"):
    """A process of the unit ended by itself; any code counts, also 0. Negative: killed by that signal.

    `lane` is the server process that ended first. Where that is not known, `code` is that of the node worker on
    `node`, or without a node that of the whole step.
    """

    code: int
    node: NodeName | None
    serving: bool
    lane: str | None = None


class NotReadyInTime(msgspec.Struct, frozen=True, kw_only=True, tag="not-ready-in-time", tag_field="kind"):
    """The deadline of the start passed. With several nodes the processes may not have met (rendezvous)."""

    after_ms: int
    nodes_together: int = 1


class ForeignAnswered(msgspec.Struct, frozen=True, kw_only=True, tag="foreign-answered", tag_field="kind"):
    """Somebody else's server answers at the planned address."""

    found: tuple[str, ...]
    wanted: tuple[str, ...]


class Stuck(msgspec.Struct, frozen=True, kw_only=True, tag="stuck", tag_field="kind"):
    """Requests are running and no token comes."""


class NoPorts(msgspec.Struct, frozen=True, kw_only=True, tag="no-ports", tag_field="kind"):
    """New ports could not be planned."""

    reasons: tuple[str, ...]


Cause: TypeAlias = RankExited | NotReadyInTime | ForeignAnswered | Stuck | NoPorts


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag="completed", tag_field="kind"):
    """The client ended well and its result is valid and complete."""


class ClientRefused(msgspec.Struct, frozen=True, kw_only=True, tag="client-refused", tag_field="kind"):
    """The client cannot work with its config."""

    reasons: tuple[str, ...]


class ClientFailed(msgspec.Struct, frozen=True, kw_only=True, tag="client-failed", tag_field="kind"):
    """The client ended without a valid, complete result, whatever its exit code."""

    code: int
    reasons: tuple[str, ...]


class NotJudged(msgspec.Struct, frozen=True, kw_only=True, tag="not-judged", tag_field="kind"):
    """The client ended, but whether its result is valid could not be found out in time."""

    after_ms: int


class ServersFailed(msgspec.Struct, frozen=True, kw_only=True, tag="servers-failed", tag_field="kind"):
    """Too few units of a model can serve; `step` is the last that was lost."""

    alias: Alias
    step: StepName
    launch: int
    cause: Cause


class EndpointFailed(msgspec.Struct, frozen=True, kw_only=True, tag="endpoint-failed", tag_field="kind"):
    """An endpoint ended more often than it may."""

    alias: Alias
    code: int


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped", tag_field="kind"):
    """Somebody asked for the end: a signal."""

    reason: str
    exit_code: int


class OutOfTime(msgspec.Struct, frozen=True, kw_only=True, tag="out-of-time", tag_field="kind"):
    """The time limit of the job is near."""


def lane_to_blame(cause: Cause) -> str | None:
    """The process whose log says why, where one is known."""
    return cause.lane if isinstance(cause, RankExited) else None


Verdict: TypeAlias = (
    Completed | ClientRefused | ClientFailed | NotJudged | ServersFailed | EndpointFailed | Stopped | OutOfTime
)
