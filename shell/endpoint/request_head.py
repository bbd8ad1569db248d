"""The head of a request: what must be known of it, and how it is passed on.

llhttp decides whether the bytes are a request; after that the lines are well-formed, and this module only cuts out what
must not travel on (hop-by-hop headers, the client's token), byte for byte. Order, case, repetition and spelling of
everything else, and the target, stay as they came. `Expect` is a promise between the client and us: we keep it.
"""

import hmac
import re

import httptools
import msgspec

from shell.endpoint.fields import END, named, split_length, without_fields

HEAD_LIMIT = 65_536
OWN_PATHS = (b"/health", b"/metrics")
"""What the endpoint answers by itself."""

_KNOWN = re.compile(
    rb"\r\n(connection|keep-alive|proxy-connection|te|upgrade|expect|authorization|proxy-authorization"
    rb"|content-length|transfer-encoding|host):[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_CUT = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect", b"proxy-authorization")
)


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request before its body, but for the length of the body."""

    method: bytes
    target: bytes
    modern: bool
    """HTTP/1.1, not 1.0."""
    keep_alive: bool
    chunked: bool
    expects: bool
    is_authorized: bool
    """Whether the client has shown the token."""
    is_plain: bool
    """Nothing about it is unusual, so the short way may be taken when all of it is here."""
    before: bytes
    """What a server gets instead, up to the digits of the length; all of it when it has no length."""
    after: bytes | None

    @property
    def path(self) -> bytes:
        """The target without its query."""
        return self.target.partition(b"?")[0]

    def forward(self, length: int) -> bytes:
        """The head that a server gets."""
        return self.before if self.after is None else b"%b%d%b" % (self.before, length, self.after)


class HeadFault(msgspec.Struct, frozen=True, kw_only=True):
    """Why the head is refused. The connection ends then: nobody knows where the next request would begin."""

    status: int
    reason: str


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The token that clients must show, if any, and how `Authorization` travels.

    The client's own is cut out (`cut_client`), `line` (with a leading CRLF) is put in, or neither.
    """

    client_token: bytes | None
    cut_client: bool
    line: bytes

    def admit(self, shown: bytes | None) -> bool:
        """Whether this is the right `Authorization`. Takes the same time however much of it is right."""
        if self.client_token is None:
            return True
        scheme, _, token = (shown or b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.client_token)


class RequestHeads:
    """Reads heads. Clients send nearly the same one over and over: what was read is remembered, all but the length.

    Remembering gives away nothing about tokens: heads are found by their hash, which is keyed and new in each process.
    """

    __slots__ = ("_credentials", "_remembered")

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._remembered: dict[bytes, RequestHead] = {}

    def read(self, raw: bytes) -> tuple[RequestHead, int] | HeadFault:
        """Read a head that ends with an empty line; gives the length of the body too."""
        parts = split_length(raw)
        key, length = (raw, 0) if parts is None else (b"%b0%b" % (parts[0], parts[2]), int(parts[1]))
        head = self._remembered.get(key)
        if head is not None:
            return head, length
        read = _read(raw, self._credentials)
        if not isinstance(read, HeadFault) and len(raw) <= _SHORT:
            self._remember(key, read, parts is not None)
        return read

    def _remember(self, key: bytes, read: tuple[RequestHead, int], is_split: bool) -> None:
        """Only what the key tells: a length that is not in the usual place would be forgotten."""
        head, length = read
        if head.after is not None if is_split else length == 0:
            if len(self._remembered) >= _MANY:
                self._remembered.clear()
            self._remembered[key] = head


_SHORT, _MANY = 2_048, 1_024


def _read(head: bytes, credentials: Credentials) -> tuple[RequestHead, int] | HeadFault:
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
) -> tuple[RequestHead, int] | HeadFault:
    fields = [(m[1].lower(), m[2].strip(), m.span()) for m in _KNOWN.finditer(head)]
    values = {name: value for name, value, _ in fields}
    names = [name for name, _, _ in fields]
    options = {o.strip().lower() for name, value, _ in fields if name == b"connection" for o in value.split(b",")}
    coding, at = values.get(b"transfer-encoding"), head.index(b"\r\n")
    if fault := _framing_fault(names, coding, modern):
        return fault
    cut = _CUT | {b"authorization"} if credentials.cut_client else _CUT
    spans = [(start - at, end - at) for name, _, (start, end) in fields if name in cut]
    lines = without_fields(head[at:-4], spans, named(options))
    end = credentials.line + (END if b"host" in values else b"\r\nHost: localhost\r\n\r\n")
    forward = b"%b %b HTTP/1.1%b%b" % (method, target, lines, end)
    before, after = _split_forward(forward, values.get(b"content-length"))
    keep_alive = b"close" not in options if modern else b"keep-alive" in options
    expects = modern and values.get(b"expect", b"").lower() == b"100-continue"
    return RequestHead(
        method=method,
        target=target,
        modern=modern,
        keep_alive=keep_alive,
        chunked=coding is not None,
        expects=expects,
        is_authorized=credentials.admit(values.get(b"authorization") if names.count(b"authorization") == 1 else None),
        is_plain=modern and keep_alive and coding is None and not expects and not target.startswith(OWN_PATHS),
        before=before,
        after=after,
    ), int(values.get(b"content-length", b"0"))


def _split_forward(forward: bytes, length: bytes | None) -> tuple[bytes, bytes | None]:
    """Around the digits of the length, where the client wrote them as everybody does."""
    parts = None if length is None else split_length(forward)
    return (forward, None) if parts is None or parts[1] != length else (parts[0], parts[2])


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


class _Nobody:
    """Nobody listens to the parser: only its verdict counts."""


_NOBODY = _Nobody()
