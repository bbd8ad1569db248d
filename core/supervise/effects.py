"""What is to be done: in order, before the next event is read."""

from typing import Literal, TypeAlias

import msgspec

from core.units import Alias, MonotonicMs, StepName

Signal: TypeAlias = Literal["TERM", "KILL"]


class StartClient(msgspec.Struct, frozen=True, kw_only=True, tag="start-client", tag_field="kind"):
    """Start the client's process; it prepares itself and waits."""


class ReleaseClient(msgspec.Struct, frozen=True, kw_only=True, tag="release-client", tag_field="kind"):
    """Let the client work."""


class SignalClient(msgspec.Struct, frozen=True, kw_only=True, tag="signal-client", tag_field="kind"):
    """Signal the client and all that it started."""

    signal: Signal


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, tag="check-result", tag_field="kind"):
    """Look at what the client left; answered by `ResultChecked`."""


class StartServer(msgspec.Struct, frozen=True, kw_only=True, tag="start-server", tag_field="kind"):
    """Start a step."""

    step: StepName
    launch: int


class SignalServer(msgspec.Struct, frozen=True, kw_only=True, tag="signal-server", tag_field="kind"):
    """Signal all node workers of a step."""

    step: StepName
    launch: int
    signal: Signal


class ProbeServer(msgspec.Struct, frozen=True, kw_only=True, tag="probe-server", tag_field="kind"):
    """Ask whether a unit is ready; answered only when it is, or when a stranger answers."""

    step: StepName
    launch: int


class Rebind(msgspec.Struct, frozen=True, kw_only=True, tag="rebind", tag_field="kind"):
    """Choose new ports for this launch; answered by `Rebound` or `RebindRefused`."""

    step: StepName
    launch: int


class Explain(msgspec.Struct, frozen=True, kw_only=True, tag="explain", tag_field="kind"):
    """Look into the logs of a launch that failed and say why, for people; first into that of the process to blame."""

    step: StepName
    launch: int
    lane: str | None


class StartEndpoint(msgspec.Struct, frozen=True, kw_only=True, tag="start-endpoint", tag_field="kind"):
    """Start the endpoint of a model."""

    alias: Alias
    launch: int


class SignalEndpoint(msgspec.Struct, frozen=True, kw_only=True, tag="signal-endpoint", tag_field="kind"):
    """Signal an endpoint."""

    alias: Alias
    launch: int
    signal: Signal


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that serves."""

    step: StepName
    launch: int


class Route(msgspec.Struct, frozen=True, kw_only=True, tag="route", tag_field="kind"):
    """From now on the endpoint uses exactly these."""

    alias: Alias
    backends: tuple[Backend, ...]


class PublishReadiness(msgspec.Struct, frozen=True, kw_only=True, tag="publish-readiness", tag_field="kind"):
    """Write down who is ready."""

    revision: int
    ready: tuple[Backend, ...]


class WakeAt(msgspec.Struct, frozen=True, kw_only=True, tag="wake-at", tag_field="kind"):
    """Replace the timer: at most one is pending."""

    at: MonotonicMs


Effect: TypeAlias = (
    StartClient
    | ReleaseClient
    | SignalClient
    | CheckResult
    | StartServer
    | SignalServer
    | ProbeServer
    | Rebind
    | Explain
    | StartEndpoint
    | SignalEndpoint
    | Route
    | PublishReadiness
    | WakeAt
)
