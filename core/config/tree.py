"""An authored file as a tree: values with the lines where they stand, before anybody knows what they mean.

Readers of YAML and of JSON give a stream of parts; `grow` makes the tree of them and finds what is wrong with the
form of the file as a whole: keys that stand twice, keys that are no text, nesting without end. A value that cannot be
understood becomes `Broken` in the tree: it has been reported, and nobody needs to complain about it again.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from core.config.located import LineOf
from core.problem import At, BadSyntax, DuplicateKey, ForbiddenSyntax, Malformed, Problem

DEEPEST = 100
"""Levels of nesting. Real files have fewer than ten; schemas inside of them perhaps thirty."""

Scalar: TypeAlias = str | int | float | bool | None


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """Something stands here that has been reported already."""

    line: int


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A text, a number, true or false, or nothing."""

    value: Scalar
    line: int


class Sequence(msgspec.Struct, frozen=True, kw_only=True):
    """A list."""

    items: tuple["Node", ...]
    line: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A key with its value; `line` is that of the key."""

    key: str
    line: int
    value: "Node"


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """Keys in the author's order, each once."""

    entries: tuple[Entry, ...]
    line: int


Node: TypeAlias = Broken | Leaf | Sequence | Mapping


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """A list or a mapping begins. In a mapping, keys and values take turns."""

    kind: Literal["sequence", "mapping"]
    line: int


class Close(msgspec.Struct, frozen=True, kw_only=True):
    """The innermost list or mapping ends."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The next part uses something that is not allowed, for example an anchor."""

    feature: str
    line: int


class Unfit(msgspec.Struct, frozen=True, kw_only=True):
    """A scalar that has no value here, for example a number without end. Takes the place of a `Leaf`."""

    found: str
    expected: str
    line: int


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The text cannot be read any further."""

    reason: str
    line: int


Part: TypeAlias = Open | Close | Leaf | Broken | Refused | Unfit | Stop


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """The tree and what is wrong with it. `whole` is False when the reading stopped before the end."""

    root: Node
    problems: tuple[Problem, ...]
    whole: bool


def child(path: str, key: str) -> str:
    """The path of the value at `key`."""
    return f"{path}.{key}" if path else key


class _Frame:
    """A list or mapping that is still open."""

    def __init__(self, opened: Open, path: str) -> None:
        self.opened, self.path = opened, path
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: Node | None = None

    def next_path(self) -> str:
        """Where the next part belongs; a key belongs to its mapping."""
        if self.opened.kind == "sequence":
            return f"{self.path}[{len(self.items)}]"
        named = isinstance(self.key, Leaf) and isinstance(self.key.value, str)
        return child(self.path, str(self.key.value)) if named and isinstance(self.key, Leaf) else self.path

    def closed(self) -> Node:
        line = self.opened.line
        if self.opened.kind == "sequence":
            return Sequence(items=tuple(self.items), line=line)
        return Mapping(entries=tuple(self.entries.values()), line=line)


class _Growth:
    """The one place that changes while parts come in; lives inside `grow` only."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.frames: list[_Frame] = []
        self.root: Node | None = None

    def at(self, line: int) -> At:
        return At(source=self.source, path=self.frames[-1].next_path() if self.frames else "", line=line)

    def add(self, node: Node) -> None:
        if not self.frames:
            self.root = node
            return
        frame = self.frames[-1]
        if frame.opened.kind == "sequence":
            frame.items.append(node)
        elif frame.key is None:
            frame.key = self.checked_key(node)
        else:
            self.add_entry(frame, frame.key, node)
            frame.key = None

    def checked_key(self, node: Node) -> Node:
        if isinstance(node, Sequence | Mapping):
            self.problems.append(ForbiddenSyntax(at=self.at(node.line), feature="lists and mappings as keys"))
        elif isinstance(node, Leaf) and not isinstance(node.value, str):
            found = f"the key {written(node.value)}"
            expected = "a text as key; in quotes where it looks like a number, true, false or null"
            self.problems.append(Malformed(at=self.at(node.line), found=found, expected=expected))
        return node

    def add_entry(self, frame: _Frame, key: Node, value: Node) -> None:
        if not isinstance(key, Leaf) or not isinstance(key.value, str):
            return
        first = frame.entries.get(key.value)
        if first is None:
            frame.entries[key.value] = Entry(key=key.value, line=key.line, value=value)
        else:
            self.problems.append(DuplicateKey(at=self.at(key.line), first_line=first.line))

    def take(self, part: Part) -> bool:
        """Whether the reading goes on."""
        match part:
            case Open():
                if len(self.frames) >= DEEPEST:
                    return self.take(Stop(line=part.line, reason=f"nested more than {DEEPEST} levels deep"))
                self.frames.append(_Frame(part, self.frames[-1].next_path() if self.frames else ""))
            case Close():
                self.add(self.frames.pop().closed())
            case Refused():
                self.problems.append(ForbiddenSyntax(at=self.at(part.line), feature=part.feature))
            case Unfit():
                self.problems.append(Malformed(at=self.at(part.line), found=part.found, expected=part.expected))
                self.add(Broken(line=part.line))
            case Stop():
                self.problems.append(BadSyntax(at=At(source=self.source, line=part.line), reason=part.reason))
                return False
            case Leaf() | Broken():
                self.add(part)
        return True


def grow(source: str, parts: Iterable[Part]) -> Parsed:
    """The tree of all parts. Total: whatever the parts say, there is a tree and a list of problems."""
    growth = _Growth(source)
    whole = all(growth.take(part) for part in parts)
    root = growth.root if growth.root is not None else Leaf(value=None, line=1)
    return Parsed(root=root, problems=tuple(growth.problems), whole=whole)


def written(value: Scalar) -> str:
    """A scalar in the spelling of the file, cut where it is long."""
    text = (
        {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )
    short = text if len(text) <= 60 else f"{text[:57]}…"
    return repr(short) if isinstance(value, str) else short


def lines_of(root: Node) -> tuple[LineOf, ...]:
    """The line of every value, sorted by path: of a mapping's value where its key stands."""
    return tuple(sorted((LineOf(path="", line=root.line), *_lines(root, "")), key=lambda entry: entry.path))


def _lines(node: Node, path: str) -> Iterator[LineOf]:
    if isinstance(node, Mapping):
        for entry in node.entries:
            yield LineOf(path=child(path, entry.key), line=entry.line)
            yield from _lines(entry.value, child(path, entry.key))
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield LineOf(path=f"{path}[{index}]", line=item.line)
            yield from _lines(item, f"{path}[{index}]")
