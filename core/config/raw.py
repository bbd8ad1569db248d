"""Bytes of an authored file → a tree with lines, or everything that is wrong with its form.

The strict part of YAML that means the same to every reader: one document of mappings, lists and scalars. Anchors,
aliases, merge keys, tags and further documents are refused, each where it stands. This is the only module that
knows a YAML library, and it uses its scanner only: what a word means is decided by `core.config.scalars`.
"""

import re
from collections.abc import Iterator

import yaml

from core.config.json_text import json_parts
from core.config.scalars import plain
from core.config.tree import Broken, Close, Leaf, Open, Parsed, Part, Refused, Stop, Unfit, grow

_LOOKS_LIKE_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*["\[{\]])')
_PLAIN_WORDS = (
    ("found character '\\t'", "a tab cannot indent; use blanks"),
    ("cannot start any token", "a character that cannot stand here; blanks indent, and texts with signs need quotes"),
    ("mapping values are not allowed", "a ':' cannot stand here: check the indentation, or put the value in quotes"),
    ("expected <block end>", "the indentation does not fit the lines above"),
    ("could not find expected ':'", "a ':' is missing after the key"),
    ("found unexpected end of stream", "the file ends in the middle of a text in quotes or of a list"),
    ("expected ',' or ']'", "a ',' or the closing ']' is missing"),
    ("expected ',' or '}'", "a ',' or the closing '}' is missing"),
    ("expected the node content", "a value is missing"),
)


def parse(source: str, content: bytes) -> Parsed:
    """Read a file by the ending of its name, or by its first characters when the name says nothing.

    Problems: `BadSyntax`, `ForbiddenSyntax`, `DuplicateKey`, `Malformed`; all of the document, in its order.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        reason = f"the byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        return grow(source, [Stop(line=line, reason=reason)])
    return grow(source, json_parts(text) if _is_json(source, text) else _yaml_parts(text))


def _is_json(source: str, text: str) -> bool:
    ending = source.rpartition(".")[2].lower()
    return ending == "json" or (ending not in ("yaml", "yml") and bool(_LOOKS_LIKE_JSON.match(text)))


def _yaml_parts(text: str) -> Iterator[Part]:
    """Parts of the first document; a `Stop` where the scanner gives up."""
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        character = text[error.position : error.position + 1]
        reason = f"the character U+{ord(character or '?'):04X} is not allowed in YAML"
        yield Stop(line=text.count("\n", 0, error.position) + 1, reason=reason)
        return
    documents, keys = 0, _KeyTurns()
    while True:
        try:
            event = loader.get_event()  # type: ignore[no-untyped-call]  # missing from the stubs
        except yaml.MarkedYAMLError as error:
            yield _stop(error)
            return
        except (ValueError, OverflowError):
            yield Stop(line=loader.line + 1, reason="an escape or a number that is no character and no version")
            return
        if event is None:
            return
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            yield Refused(feature="several documents (---)", line=_line(event))
            return
        yield from _parts_of(event, keys.is_key(event))


class _KeyTurns:
    """Whether an event stands where a key belongs, which the scanner does not say."""

    def __init__(self) -> None:
        self.stack: list[bool | None] = []

    def is_key(self, event: yaml.Event) -> bool:
        """Call once for each event, in order. Lists have None on the stack, mappings whose turn it is."""
        if isinstance(event, yaml.CollectionEndEvent):
            self.stack.pop()
            return False
        turn = bool(self.stack) and self.stack[-1] is True
        if isinstance(event, yaml.NodeEvent) and self.stack and self.stack[-1] is not None:
            self.stack[-1] = not self.stack[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            self.stack.append(True if isinstance(event, yaml.MappingStartEvent) else None)
        return turn


def _parts_of(event: yaml.Event, is_key: bool) -> Iterator[Part]:
    line = _line(event)
    if isinstance(event, yaml.AliasEvent):
        yield Refused(feature=f"aliases (*{event.anchor})", line=line)
        yield Broken(line=line)
        return
    if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
        yield Refused(feature=f"anchors (&{event.anchor})", line=line)
    if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
        yield Refused(feature=f"tags ({_short(event.tag)})", line=line)
    if isinstance(event, yaml.ScalarEvent):
        yield from _scalar(event, is_key, line)
    elif isinstance(event, yaml.CollectionStartEvent):
        yield Open(kind="mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence", line=line)
    elif isinstance(event, yaml.CollectionEndEvent):
        yield Close()


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(event: yaml.ScalarEvent, is_key: bool, line: int) -> Iterator[Part]:
    if event.tag is not None:
        yield Broken(line=line)
    elif event.implicit[0] and is_key and event.value == "<<":
        yield Refused(feature="merge keys (<<)", line=line)
        yield Broken(line=line)
    elif event.implicit[0]:
        yield plain(event.value, line)
    else:
        yield _quoted(event.value, line)


def _quoted(value: str, line: int) -> Leaf | Unfit:
    r"""Two escapes of one character (``\ud83d\ude00``) are put together; one half alone is no text."""
    try:
        return Leaf(value=value.encode("utf-16", "surrogatepass").decode("utf-16"), line=line)
    except UnicodeDecodeError:
        return Unfit(found="an escape of half a character", expected="whole characters", line=line)


def _short(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _stop(error: yaml.MarkedYAMLError) -> Stop:
    mark = error.problem_mark or error.context_mark
    said = str(error.problem or error.context or "cannot be understood")
    reason = next((words for sign, words in _PLAIN_WORDS if sign in said), said)
    return Stop(line=mark.line + 1 if mark else 1, reason=f"not valid YAML: {reason}")
