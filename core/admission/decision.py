"""What can be decided about a request: it is forwarded or answered, at once. There is no queue."""

from typing import Literal, TypeAlias

import msgspec

Reason: TypeAlias = Literal["unauthorized", "draining", "full", "down"]


class Forward(msgspec.Struct, frozen=True, kw_only=True, tag="forward", tag_field="kind"):
    """Send it to the backend at this place in the state."""

    place: int
    serial: int


class Reject(msgspec.Struct, frozen=True, kw_only=True, tag="reject", tag_field="kind"):
    """Answer it."""

    status: int
    retry_after_seconds: int | None
    reason: Reason


Decision: TypeAlias = Forward | Reject

UNAUTHORIZED = Reject(status=401, retry_after_seconds=None, reason="unauthorized")
DRAINING = Reject(status=503, retry_after_seconds=1, reason="draining")
