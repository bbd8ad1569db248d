"""What happens to requests and backends. Every request that was `Started` ends with exactly one of the other three."""

from typing import TypeAlias

import msgspec

from core.endpoint_spec import BackendAddress, LoadVerdict


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="kind"):
    """A request goes there."""

    serial: int


class Answered(msgspec.Struct, frozen=True, kw_only=True, tag="answered", tag_field="kind"):
    """The head of a good answer has come: the backend is well. The request goes on."""

    serial: int


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished", tag_field="kind"):
    """A request has ended and nobody is to blame: answered, cancelled, or met by an idle connection that was closed."""

    serial: int


class TurnedAway(msgspec.Struct, frozen=True, kw_only=True, tag="turned-away", tag_field="kind"):
    """The backend is full."""

    serial: int
    retry_after_ms: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed", tag_field="kind"):
    """The connection was refused or broken, or the engine is dead."""

    serial: int
    reason: str


class BackendsGiven(msgspec.Struct, frozen=True, kw_only=True, tag="backends-given", tag_field="kind"):
    """Exactly these are to be used."""

    backends: tuple[BackendAddress, ...]


class LoadSampled(msgspec.Struct, frozen=True, kw_only=True, tag="load-sampled", tag_field="kind"):
    """A sampler's figures, and how many requests of ours the backend has at that moment."""

    id: str
    waiting: int
    running: int
    verdict: LoadVerdict
    in_flight: int


class DrainAsked(msgspec.Struct, frozen=True, kw_only=True, tag="drain-asked", tag_field="kind"):
    """No new requests."""


RequestEvent: TypeAlias = Started | Answered | Finished | TurnedAway | Failed
AdmissionEvent: TypeAlias = RequestEvent | BackendsGiven | LoadSampled | DrainAsked
