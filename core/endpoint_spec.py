"""What an endpoint process is told at its start and later, and what it says: the words between it and its owner.

The owner writes control lines (one JSON object a line) to the endpoint's standard input and reads spoken lines from its
standard output. The end of standard input means that the owner is gone. Standard library and msgspec only.
"""

from typing import Literal, TypeAlias

import msgspec

from core.units import Alias, Port

Standing: TypeAlias = Literal["alive", "full", "stalled", "probation", "dead"]
"""How a backend is seen: only *alive*, *full* and *probation* are in rotation, and a full one takes nothing now."""

LoadVerdict: TypeAlias = Literal["fine", "stalled", "unavailable"]


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The start file of one endpoint process."""

    alias: Alias
    served_name: str
    address: str
    port: Port
    """0 lets the system choose; `Listening` says which one it is."""
    client_token_file: str | None
    """Clients must present this bearer token. None: everybody may ask."""
    server_token_file: str | None
    """Servers are shown this one. None with a client token: servers are shown none."""
    max_waiting: int | None
    """A backend with more waiting requests than this is full."""
    retry_after_seconds: int = 1
    grace_ms: int = 10_000
    """How long requests in flight may go on after a TERM."""
    max_body_bytes: int | None = None
    access_log: str | None = None
    events: str | None = None
    """A file that gets the spoken lines too."""


class BackendAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A server to use. A new launch is a new `id`."""

    id: str
    url_host: str
    """A numeric address, without brackets."""
    port: Port


class UseBackends(msgspec.Struct, frozen=True, kw_only=True, tag="backends", tag_field="kind"):
    """From now on use exactly these. What runs on others is not disturbed."""

    backends: tuple[BackendAddress, ...]


class LoadLine(msgspec.Struct, frozen=True, kw_only=True, tag="load", tag_field="kind"):
    """What a server's metrics say; *unavailable* when nobody could read them."""

    id: str
    waiting: int
    running: int
    state: LoadVerdict


class DrainLine(msgspec.Struct, frozen=True, kw_only=True, tag="drain", tag_field="kind"):
    """Take no new requests; finish those in flight and stay."""


ControlLine: TypeAlias = UseBackends | LoadLine | DrainLine


class Listening(msgspec.Struct, frozen=True, kw_only=True, tag="listening", tag_field="kind"):
    """Clients may come."""

    address: str
    port: Port


class BackendState(msgspec.Struct, frozen=True, kw_only=True, tag="backend", tag_field="kind"):
    """A backend is seen in another way than before."""

    id: str
    state: Standing
    reason: str


SpokenLine: TypeAlias = Listening | BackendState
