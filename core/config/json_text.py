"""JSON text → parts with lines. Values are decoded by a real decoder; the grammar around them is read here, because
decoders do not say on which line a value stands, and go on after a key that stands twice.
"""

import re
from collections.abc import Iterator

import msgspec

from core.config.scalars import number
from core.config.tree import Close, Leaf, Open, Part, Stop, Unfit

_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.]))"
    r"|(?P<word>-?[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>[{}\[\]:,])",
    re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_WANTED = {
    "value": "a value",
    "value]": "a value or ']'",
    "key": "a key in double quotes",
    "key}": "a key in double quotes or '}'",
    ":": "':'",
    ",}": "',' or '}'",
    ",]": "',' or ']'",
    "end": "nothing more",
}


class _Token(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    text: str
    line: int


def json_parts(text: str) -> Iterator[Part]:
    """The parts of one JSON document; a `Stop` where the grammar is broken."""
    nesting: list[str] = []
    wanted = "value"
    for token in _tokens(text):
        followed = _next_wanted(wanted, token, nesting)
        if followed is None:
            yield Stop(line=token.line, reason=f"found {_shown(token)}, expected {_WANTED[wanted]}")
            return
        yield from _part(token)
        wanted = followed


def _tokens(text: str) -> Iterator[_Token]:
    """Every token, then one of kind ``end``; something unreadable is a token of kind ``bad``."""
    place, line = 0, 1
    while True:
        blanks = _BLANKS.match(text, place)
        start = blanks.end() if blanks else place
        line += text.count("\n", place, start)
        if start == len(text):
            yield _Token(kind="end", text="", line=line)
            return
        found = _TOKEN.match(text, start)
        if found is None:
            yield _Token(kind="bad", text=text[start : start + 20], line=line)
            return
        yield _Token(kind=str(found.lastgroup), text=found.group(), line=line)
        line += text.count("\n", start, found.end())
        place = found.end()


def _shown(token: _Token) -> str:
    if token.kind == "end":
        return "the end of the file"
    if token.kind == "bad" and token.text[:1] == '"':
        return "a text without closing quotes"
    first = token.text.splitlines()[0] if token.text.splitlines() else ""
    return repr(first[:40])


def _next_wanted(wanted: str, token: _Token, nesting: list[str]) -> str | None:
    """What may follow `token`; None when it may not stand here. Keeps `nesting` up to date."""
    mark = token.text if token.kind == "mark" else token.kind
    if wanted in ("value", "value]") and mark in ("text", "number", "word"):
        return _after_value(nesting) if token.kind != "word" or _is_word(token.text) else None
    if wanted in ("value", "value]") and mark in ("{", "["):
        nesting.append("}" if mark == "{" else "]")
        return "key}" if mark == "{" else "value]"
    if wanted in ("value]", ",]", "key}", ",}") and mark == wanted[-1]:
        nesting.pop()
        return _after_value(nesting)
    follows = {("key", "text"): ":", ("key}", "text"): ":", (":", ":"): "value", ("end", "end"): "end"}
    follows |= {(",}", ","): "key", (",]", ","): "value"}
    return follows.get((wanted, mark))


def _after_value(nesting: list[str]) -> str:
    return f",{nesting[-1]}" if nesting else "end"


def _is_word(text: str) -> bool:
    return text in _WORDS or text in _NOT_FINITE


def _part(token: _Token) -> Iterator[Part]:
    if token.kind == "mark" and token.text in "{[":
        yield Open(kind="mapping" if token.text == "{" else "sequence", line=token.line)
    elif token.kind == "mark" and token.text in "}]":
        yield Close()
    elif token.kind == "number":
        yield number(token.text, token.line)
    elif token.kind == "word" and token.text in _WORDS:
        yield Leaf(value=_WORDS[token.text], line=token.line)
    elif token.kind == "word":
        yield Unfit(found=token.text, expected="a number that is finite", line=token.line)
    elif token.kind == "text":
        yield _text(token)


def _text(token: _Token) -> Part:
    try:
        return Leaf(value=msgspec.json.decode(token.text, type=str), line=token.line)
    except (msgspec.DecodeError, UnicodeError):
        reason = "a text with a line break, a control character or a bad escape"
        return Unfit(found=reason, expected=r"escapes such as \n, and whole characters", line=token.line)
