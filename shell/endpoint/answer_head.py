"""The head of a server's answer: what must be known of it, and how it is passed on to the client.

llhttp decides whether it is one. A server's heads differ in their date and their length only, so what was read is
remembered, all but the length: as for requests.
"""

import re

import httptools
import msgspec

from shell.endpoint.fields import END, named, split_length, without_fields
from shell.endpoint.sink import Sink

_KNOWN = re.compile(
    rb"\r\n(connection|keep-alive|proxy-connection|upgrade|content-length|transfer-encoding|retry-after):"
    rb"[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_CUT = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"upgrade"))


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True):
    """An answer before its body, but for the length of the body."""

    status: int
    ends_with_head: bool
    """There is no body whatever the head says."""
    keep_alive: bool
    """Whether the server's connection can be used again."""
    chunked: bool
    measured: bool
    """It has a Content-Length."""
    retry_after: bytes | None
    passes: bool
    """A client of HTTP/1.1 gets the head as it is."""
    options: tuple[bytes, ...]
    """The headers that were declared to be for one hop."""

    def for_client(self, raw: bytes, modern: bool, keep_alive: bool) -> bytes:
        """The head that the client gets. One of HTTP/1.0 gets its body without chunks, and no word of them."""
        if self.passes and modern and keep_alive:
            return raw
        cut = _CUT if modern else _CUT | {b"transfer-encoding"}
        spans = [(m.start() - 8, m.end() - 8) for m in _KNOWN.finditer(raw) if m[1].lower() in cut]
        kept = without_fields(raw[8:-4], spans, self.options)
        option = END if modern and keep_alive else _KEEP if keep_alive else _CLOSE
        return b"HTTP/1.1" + kept + option


_CLOSE = b"\r\nConnection: close\r\n\r\n"
_KEEP = b"\r\nConnection: keep-alive\r\n\r\n"


class BadAnswer(ValueError):
    """These bytes are no head of an answer."""


class AnswerHeads:
    """Reads heads of answers."""

    __slots__ = ("_remembered",)

    def __init__(self) -> None:
        self._remembered: dict[bytes, AnswerHead] = {}

    def read(self, raw: bytes) -> tuple[AnswerHead, int]:
        """Read a head that ends with an empty line; gives the length of the body too. Raises `BadAnswer`."""
        parts = split_length(raw)
        key, length = (raw, 0) if parts is None else (b"%b0%b" % (parts[0], parts[2]), int(parts[1]))
        head = self._remembered.get(key)
        if head is not None:
            return head, length
        head, length = _read(raw)
        if head.measured == (parts is not None) and len(raw) <= _SHORT:
            if len(self._remembered) >= _MANY:
                self._remembered.clear()
            self._remembered[key] = head
        return head, length


_SHORT, _MANY = 2_048, 1_024


def _read(raw: bytes) -> tuple[AnswerHead, int]:
    parser = httptools.HttpResponseParser(sink := Sink())
    try:
        parser.feed_data(raw)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
        raise BadAnswer from error
    if sink.begins != 1 or not raw.startswith(b"HTTP/"):
        raise BadAnswer  # llhttp passes over empty lines before a message
    status = parser.get_status_code()
    fields = [(m[1].lower(), m[2].strip()) for m in _KNOWN.finditer(raw)]
    values = dict(fields)
    options = {o.strip().lower() for name, value in fields if name == b"connection" for o in value.split(b",")}
    is_http11, gone = raw.startswith(b"HTTP/1.1"), named(options)
    return AnswerHead(
        status=status,
        ends_with_head=status < 200 or status in (204, 304),
        keep_alive=b"close" not in options if is_http11 else b"keep-alive" in options,
        chunked=b"transfer-encoding" in values,
        measured=b"content-length" in values,
        retry_after=values.get(b"retry-after"),
        passes=is_http11 and not gone and values.keys().isdisjoint(_CUT),
        options=tuple(sorted(gone)),
    ), int(values.get(b"content-length", b"0"))
