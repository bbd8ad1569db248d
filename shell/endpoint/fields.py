"""Cutting header lines out of a head without touching the others."""

import re
from collections.abc import Iterable

END = b"\r\n\r\n"

_STANDING_OPTIONS = frozenset((b"", b"close", b"keep-alive", b"te", b"upgrade"))
_NEVER_NAMED = frozenset((b"content-length", b"transfer-encoding", b"host", b"authorization"))
"""Naming one of these in `Connection` must not remove it: that is how framing is attacked."""


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
