"""The head of a request: what must be known of it, and how it is passed on.

llhttp decides whether the bytes are a request; after that the lines are well-formed, and this module only cuts out what
must not travel on (hop-by-hop headers, the client's token), byte for byte. Order, case, repetition and spelling of
everything else, and the target, stay as they came. `Expect` is a promise between the client and us: we keep it.
"""

import re
from functools import lru_cache

import httptools
import msgspec

from shell.endpoint.fields import END, named, without_fields

HEAD_LIMIT = 65_536

_KNOWN = re.compile(
    rb"\r\n(connection|keep-alive|proxy-connection|te|upgrade|expect|authorization|proxy-authorization"
    rb"|content-length|transfer-encoding|host):[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_CUT = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect", b"proxy-authorization")
)


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request before its body. `forward` is what a server gets instead."""

    method: bytes
    target: bytes
    modern: bool
    """HTTP/1.1, not 1.0."""
    keep_alive: bool
    length: int
    chunked: bool
    expects: bool
    authorization: bytes | None
    """None also when there are several."""
    forward: bytes

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]


class HeadFault(msgspec.Struct, frozen=True, kw_only=True):
    """Why the head is refused. The connection ends then: nobody knows where the next request would begin."""

    status: int
    reason: str


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """How `Authorization` travels: the client's own is cut out, `line` (with a leading CRLF) is put in, or neither."""

    cut_client: bool
    line: bytes


def read_request_head(head: bytes, credentials: Credentials) -> RequestHead | HeadFault:
    """Read a head that ends with an empty line. Clients send nearly the same one over and over: it is remembered."""
    return _remembered(head, credentials) if len(head) <= _SHORT else _read(head, credentials)


def _read(head: bytes, credentials: Credentials) -> RequestHead | HeadFault:
    parser = httptools.HttpRequestParser(_NOBODY)
    try:
        parser.feed_data(head)
    except httptools.HttpParserUpgrade:
        pass  # RFC 9110 7.8: a server may ignore an offer to upgrade
    except httptools.HttpParserError as error:
        return HeadFault(status=400, reason=f"not an HTTP request: {error}")
    method, target, version = head[: head.index(b"\r\n")].split(b" ")
    if method == b"CONNECT":
        return HeadFault(status=405, reason="this is not a tunnel")
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        return HeadFault(status=505, reason="only HTTP/1.1 and HTTP/1.0 are spoken here")
    return _read_fields(head, method, target, version == b"HTTP/1.1", credentials)


def _read_fields(
    head: bytes, method: bytes, target: bytes, modern: bool, credentials: Credentials
) -> RequestHead | HeadFault:
    fields = [(m[1].lower(), m[2].strip(), m.span()) for m in _KNOWN.finditer(head)]
    values = {name: value for name, value, _ in fields}
    names = [name for name, _, _ in fields]
    options = {o.strip().lower() for name, value, _ in fields if name == b"connection" for o in value.split(b",")}
    coding, at = values.get(b"transfer-encoding"), head.index(b"\r\n")
    if fault := _framing_fault(names, coding, modern):
        return fault
    cut = _CUT | {b"authorization"} if credentials.cut_client else _CUT
    spans = [(start - at, end - at) for name, _, (start, end) in fields if name in cut]
    return RequestHead(
        method=method,
        target=target,
        modern=modern,
        keep_alive=b"close" not in options if modern else b"keep-alive" in options,
        length=int(values.get(b"content-length", b"0")),
        chunked=coding is not None,
        expects=modern and values.get(b"expect", b"").lower() == b"100-continue",
        authorization=values.get(b"authorization") if names.count(b"authorization") == 1 else None,
        forward=b"".join(
            (
                b"%b %b HTTP/1.1" % (method, target),
                without_fields(head[at:-4], spans, named(options)),
                credentials.line,
                END if b"host" in values else b"\r\nHost: localhost\r\n\r\n",
            )
        ),
    )


def _framing_fault(names: list[bytes], coding: bytes | None, modern: bool) -> HeadFault | None:
    """Two opinions about where the body ends are an attack or a bug: RFC 9112 6.1 and 6.3."""
    if names.count(b"content-length") > 1 or (coding is not None and b"content-length" in names):
        return HeadFault(status=400, reason="the length of the body is given twice")
    if coding is not None and (not modern or names.count(b"transfer-encoding") > 1):
        return HeadFault(status=400, reason="chunked bodies are part of HTTP/1.1")
    if coding is not None and coding.lower() != b"chunked":
        return HeadFault(status=501, reason="the only transfer coding spoken here is chunked")
    if names.count(b"host") > 1 or (modern and b"host" not in names):
        return HeadFault(status=400, reason="exactly one Host header is needed")
    return None


_SHORT = 2_048
_remembered = lru_cache(maxsize=1_024)(_read)


class _Nobody:
    """Nobody listens to the parser: only its verdict counts."""


_NOBODY = _Nobody()
