"""Header lines of a head: cutting some out without touching the others, and the length that is new in each message."""

import re
from collections.abc import Iterable

END = b"\r\n\r\n"

_STANDING_OPTIONS = frozenset((b"", b"close", b"keep-alive", b"te", b"upgrade"))
_NEVER_NAMED = frozenset((b"content-length", b"transfer-encoding", b"host", b"authorization"))
"""Naming one of these in `Connection` must not remove it: that is how framing is attacked."""
_LENGTHS = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_MOST_DIGITS = 15


def named(options: set[bytes]) -> set[bytes]:
    """The headers that a `Connection` header declares to be for one hop only."""
    return options - _STANDING_OPTIONS - _NEVER_NAMED


def without_fields(lines: bytes, spans: list[tuple[int, int]], names: Iterable[bytes]) -> bytes:
    """`lines` without `spans` and without the headers of these names.

    Each span begins with the CRLF before its line and ends before the next one. Spans ascend and do not overlap.
    """
    if spans:
        pieces, at = [], 0
        for start, end in spans:
            pieces.append(lines[at:start])
            at = end
        pieces.append(lines[at:])
        lines = b"".join(pieces)
    for name in names:
        lines = re.sub(rb"\r\n" + re.escape(name) + rb":[^\r\n]*", b"", lines, flags=re.IGNORECASE)
    return lines


def split_length(head: bytes) -> tuple[bytes, bytes, bytes] | None:
    """`head` before, in and after the digits of its first Content-Length; None where it is not written as usual.

    Heads that differ in these digits only mean the same but for the length, so one of them needs to be read.
    """
    for name in _LENGTHS:
        at = head.find(name)
        if at >= 0:
            at += 18  # the length of either name
            end = head.find(b"\r", at)
            digits = head[at:end]
            return (head[:at], digits, head[end:]) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None
    return None
