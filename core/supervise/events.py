"""What happened, each at a time."""

from typing import TypeAlias

import msgspec

from core.plan.task import FirstEnd
from core.units import Alias, MonotonicMs, NodeName, StepName


class TaskExited(msgspec.Struct, frozen=True, kw_only=True, tag="task-exited", tag_field="kind"):
    """The node worker of one node ended; the step may go on elsewhere."""

    at: MonotonicMs
    step: StepName
    launch: int
    node: NodeName
    code: int
    first: FirstEnd | None = None
    """The process that ended first there and by itself; None when that is not known. `code` is the worker's."""


class ServerExited(msgspec.Struct, frozen=True, kw_only=True, tag="server-exited", tag_field="kind"):
    """The whole step is gone, on all nodes."""

    at: MonotonicMs
    step: StepName
    launch: int
    code: int
    first: FirstEnd | None = None
    """The process that ended first and by itself; None when that is not known. `code` is the step's."""


class ServerReady(msgspec.Struct, frozen=True, kw_only=True, tag="server-ready", tag_field="kind"):
    """Every API of the unit has proved who it is and has answered."""

    at: MonotonicMs
    step: StepName
    launch: int


class ServerForeign(msgspec.Struct, frozen=True, kw_only=True, tag="server-foreign", tag_field="kind"):
    """An API of the unit answers with other names."""

    at: MonotonicMs
    step: StepName
    launch: int
    found: tuple[str, ...]
    wanted: tuple[str, ...]


class ServerStalled(msgspec.Struct, frozen=True, kw_only=True, tag="server-stalled", tag_field="kind"):
    """Requests run and no token has come for too long."""

    at: MonotonicMs
    step: StepName
    launch: int


class Rebound(msgspec.Struct, frozen=True, kw_only=True, tag="rebound", tag_field="kind"):
    """New ports are planned for this launch."""

    at: MonotonicMs
    step: StepName
    launch: int


class RebindRefused(msgspec.Struct, frozen=True, kw_only=True, tag="rebind-refused", tag_field="kind"):
    """No new ports can be planned."""

    at: MonotonicMs
    step: StepName
    launch: int
    reasons: tuple[str, ...]


class EndpointListening(msgspec.Struct, frozen=True, kw_only=True, tag="endpoint-listening", tag_field="kind"):
    """The endpoint takes requests."""

    at: MonotonicMs
    alias: Alias
    launch: int


class EndpointExited(msgspec.Struct, frozen=True, kw_only=True, tag="endpoint-exited", tag_field="kind"):
    """The endpoint's process is gone."""

    at: MonotonicMs
    alias: Alias
    launch: int
    code: int


class ClientIsPrepared(msgspec.Struct, frozen=True, kw_only=True, tag="client-prepared", tag_field="kind"):
    """The client can work with its config."""

    at: MonotonicMs


class ClientRefuses(msgspec.Struct, frozen=True, kw_only=True, tag="client-refuses", tag_field="kind"):
    """The client cannot work with its config."""

    at: MonotonicMs
    reasons: tuple[str, ...]


class ClientExited(msgspec.Struct, frozen=True, kw_only=True, tag="client-exited", tag_field="kind"):
    """The client's process is gone."""

    at: MonotonicMs
    code: int


class ResultChecked(msgspec.Struct, frozen=True, kw_only=True, tag="result-checked", tag_field="kind"):
    """What speaks against the client's result; nothing when it is valid and complete."""

    at: MonotonicMs
    reasons: tuple[str, ...]


class StopAsked(msgspec.Struct, frozen=True, kw_only=True, tag="stop-asked", tag_field="kind"):
    """A signal to the controller."""

    at: MonotonicMs
    reason: str
    exit_code: int


class TimeLimitNear(msgspec.Struct, frozen=True, kw_only=True, tag="time-limit-near", tag_field="kind"):
    """The margin before the job's time limit has begun."""

    at: MonotonicMs


class TimerFired(msgspec.Struct, frozen=True, kw_only=True, tag="timer-fired", tag_field="kind"):
    """The moment of the last `WakeAt` has come."""

    at: MonotonicMs


ServerEvent: TypeAlias = (
    TaskExited | ServerExited | ServerReady | ServerForeign | ServerStalled | Rebound | RebindRefused
)
ClientEvent: TypeAlias = ClientIsPrepared | ClientRefuses | ClientExited | ResultChecked
EndpointEvent: TypeAlias = EndpointListening | EndpointExited
Event: TypeAlias = ServerEvent | ClientEvent | EndpointEvent | StopAsked | TimeLimitNear | TimerFired
