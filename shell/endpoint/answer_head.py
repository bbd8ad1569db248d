"""The head of a server's answer: what must be known of it, and how it is passed on to the client."""

import re

import msgspec

from shell.endpoint.fields import END, named, without_fields

_KNOWN = re.compile(
    rb"\r\n(connection|keep-alive|proxy-connection|upgrade|content-length|transfer-encoding|retry-after):"
    rb"[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_CUT = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"upgrade"))


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True):
    """An answer before its body, which llhttp has found well-formed."""

    status: int
    keep_alive: bool
    """Whether the server's connection can be used again."""
    until_close: bool
    """The body ends when the server closes."""
    bodiless: bool
    retry_after: bytes | None
    kept: bytes
    """The status line without the version, and the headers that travel on; no empty line."""

    def for_client(self, modern: bool, keep_alive: bool) -> bytes:
        """The head that the client gets."""
        option = END if modern and keep_alive else _KEEP if keep_alive else _CLOSE
        return b"HTTP/1.1" + self.kept + option


_CLOSE = b"\r\nConnection: close\r\n\r\n"
_KEEP = b"\r\nConnection: keep-alive\r\n\r\n"


def read_answer_head(head: bytes, status: int, to_head_request: bool, modern: bool) -> AnswerHead:
    """Read a head that ends with an empty line; `status` is what the parser found.

    A client that is not `modern` gets its body without chunks, and a head that says nothing of them.
    """
    bodiless = to_head_request or status < 200 or status in (204, 304)
    fields = [(m[1].lower(), m[2].strip(), m.span()) for m in _KNOWN.finditer(head)]
    values = {name: value for name, value, _ in fields}
    options = {o.strip().lower() for name, value, _ in fields if name == b"connection" for o in value.split(b",")}
    cut = _CUT if modern else _CUT | {b"transfer-encoding"}
    return AnswerHead(
        status=status,
        keep_alive=b"close" not in options if head.startswith(b"HTTP/1.1") else b"keep-alive" in options,
        until_close=not bodiless and b"transfer-encoding" not in values and b"content-length" not in values,
        bodiless=bodiless,
        retry_after=values.get(b"retry-after"),
        kept=without_fields(head[8:-4], [(a - 8, b - 8) for name, _, (a, b) in fields if name in cut], named(options)),
    )
