"""What a server's refusal means: is it full, is its engine dead, or is the answer meant for the client?

vLLM's own queue limit answers 503 (one release answered 500) without Retry-After, which looks like a dead engine to
anybody who does not read the words. A 503 in other words is taken as a dead engine: the next one would fare the same.
"""

from typing import Literal, TypeAlias

Meaning: TypeAlias = Literal["answer", "full", "dead"]

TURNED_AWAY = 429
SUSPECT = (500, 503)
"""Statuses whose body must be read before it is clear what they mean."""

_FULL = (b"queue", b"overload", b"too many")
_DEAD = (b"enginedead", b"engine dead", b"engine is dead", b"enginecore encountered")
_OVERFLOW = (b"queueoverflow", b"queue overflow", b"queue is full", b"queue full", b"max_num_queued")


def meaning_of(status: int, body: bytes) -> Meaning:
    """Read a refusal. Other statuses are answers."""
    words = body.lower()
    if status == TURNED_AWAY:
        return "full"
    if status == 503:
        is_full = any(word in words for word in _FULL) and not any(word in words for word in _DEAD)
        return "full" if is_full else "dead"
    if status == 500 and any(word in words for word in _OVERFLOW):
        return "full"
    if status == 500 and any(word in words for word in _DEAD):
        return "dead"
    return "answer"
