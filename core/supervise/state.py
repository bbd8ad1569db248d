"""What is so: everything that the supervisor knows of an attempt. Data of one phase lives in that phase only."""

from typing import Literal, TypeAlias

import msgspec

from core.supervise.verdict import Cause, Verdict
from core.units import Alias, MonotonicMs, StepName


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag="waiting", tag_field="kind"):
    """Lost, and to be launched again at `at`."""

    at: MonotonicMs
    cause: Cause


class Rebinding(msgspec.Struct, frozen=True, kw_only=True, tag="rebinding", tag_field="kind"):
    """New ports are being chosen."""

    since: MonotonicMs


class Booting(msgspec.Struct, frozen=True, kw_only=True, tag="booting", tag_field="kind"):
    """Launched, not ready yet."""

    since: MonotonicMs


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready", tag_field="kind"):
    """Serving."""

    since: MonotonicMs


class Ending(msgspec.Struct, frozen=True, kw_only=True, tag="ending", tag_field="kind"):
    """Told to end; its processes may still be there."""

    cause: Cause
    kill_at: MonotonicMs


class GivenUp(msgspec.Struct, frozen=True, kw_only=True, tag="given-up", tag_field="kind"):
    """Gone, and not launched again."""

    cause: Cause


Life: TypeAlias = Waiting | Rebinding | Booting | Ready | Ending | GivenUp


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One server step. `launch` is the present or next one."""

    step: StepName
    launch: int
    restarts: int
    port_retries: int
    life: Life


class Opening(msgspec.Struct, frozen=True, kw_only=True, tag="opening", tag_field="kind"):
    """Launched, does not listen yet; killed at the deadline."""

    deadline: MonotonicMs


class Listening(msgspec.Struct, frozen=True, kw_only=True, tag="listening", tag_field="kind"):
    """Takes requests."""


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed", tag_field="kind"):
    """Gone, and not launched again."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoint of a model."""

    alias: Alias
    launch: int
    life: Opening | Listening | Closed


class Preparing(msgspec.Struct, frozen=True, kw_only=True, tag="preparing", tag_field="kind"):
    """The client reads its config."""

    deadline: MonotonicMs


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared", tag_field="kind"):
    """The client waits for servers."""


class Working(msgspec.Struct, frozen=True, kw_only=True, tag="working", tag_field="kind"):
    """The client was released."""


class Hurry(msgspec.Struct, frozen=True, kw_only=True):
    """The end was asked for; work that is complete counts all the same, if that is known until then."""

    otherwise: Verdict
    until: MonotonicMs


class Judging(msgspec.Struct, frozen=True, kw_only=True, tag="judging", tag_field="kind"):
    """The client has ended; its result is being looked at, until the deadline at the latest."""

    code: int
    deadline: MonotonicMs
    hurry: Hurry | None = None


class Gone(msgspec.Struct, frozen=True, kw_only=True, tag="gone", tag_field="kind"):
    """The client has ended and nothing more is asked of it."""


Client: TypeAlias = Preparing | Prepared | Working | Judging | Gone


class Running(msgspec.Struct, frozen=True, kw_only=True, tag="running", tag_field="kind"):
    """Nothing speaks against going on."""


class Stopping(msgspec.Struct, frozen=True, kw_only=True, tag="stopping", tag_field="kind"):
    """Everything is being ended, client first, then endpoints, then servers."""

    verdict: Verdict
    stage: Literal["client", "endpoints", "servers"]
    kill_at: MonotonicMs


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished", tag_field="kind"):
    """Nothing of ours runs any more."""

    verdict: Verdict


Phase: TypeAlias = Running | Stopping | Finished


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the supervisor knows of the attempt."""

    phase: Phase
    units: tuple[Unit, ...]
    endpoints: tuple[Endpoint, ...]
    client: Client
    probe_at: MonotonicMs
    wake_at: MonotonicMs | None
    readiness: int
    """Revision of the published readiness."""
