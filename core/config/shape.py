"""A tree → a struct of ours, with every misfit: unknown, missing and malformed fields, each with path and line.

msgspec's own reader stops at the first misfit. This one walks the types as `msgspec.inspect` shows them and goes on:
what does not fit is replaced by a stand-in and its path noted as broken, so that rules about other fields can still
be judged (`core.config.place`).
"""

from functools import cache
from typing import Generic, TypeVar

import msgspec
from msgspec import inspect

from core.config.kinds import (
    fits,
    inner,
    is_int,
    is_json,
    nested_names,
    stand_in,
    stand_ins,
    takes,
    takes_secret,
    takes_text,
)
from core.config.secrets import is_secret_name
from core.config.tree import Broken, Entry, Leaf, Mapping, Node, Sequence, child
from core.config.words import as_json, expected_in_words, found_in_words, has_broken, one_of
from core.problem import At, Malformed, MissingField, Problem, UnknownField
from core.suggest import nearest

T = TypeVar("T", bound=msgspec.Struct)


class Shaped(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The value, as far as it could be read. Parts at or below the paths in `broken` are stand-ins."""

    value: T
    problems: tuple[Problem, ...]
    broken: tuple[str, ...]


class _Spot(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its place."""

    node: Node
    path: str
    line: int


def shape(source: str, root: Node, kind: type[T]) -> Shaped[T]:
    """Read `root` as a `kind`. Total: whatever the tree is, there is a value, and problems when it does not fit."""
    reading = _Reading(source)
    value = reading.struct(_type_of(kind), _Spot(node=root, path="", line=root.line))
    if not isinstance(value, kind):
        value = kind(**stand_ins(_type_of(kind)))
    return Shaped(value=value, problems=tuple(reading.problems), broken=tuple(reading.broken))


@cache
def _type_of(kind: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(kind)
    if not isinstance(found, inspect.StructType):
        raise TypeError(f"{kind} is not a struct")
    return found


class _Reading:
    """One walk; collects problems and broken paths."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.broken: list[str] = []

    def at(self, spot: _Spot) -> At:
        return At(source=self.source, path=spot.path, line=spot.line)

    def complain(self, spot: _Spot, expected: str, may_show: bool = True) -> None:
        """Note that what stands here does not fit, unless it has been reported before."""
        if not isinstance(spot.node, Broken):
            shown = may_show and not is_secret_name(spot.path.rpartition(".")[2])
            found = found_in_words(spot.node, shown)
            self.problems.append(Malformed(at=self.at(spot), found=found, expected=expected))
        self.broken.append(spot.path)

    def misfit(self, spot: _Spot, kind: inspect.Type, expected: str = "") -> object:
        """Complain, and go on with a stand-in."""
        wanted = expected or expected_in_words(kind)
        numeric = isinstance(spot.node, Leaf) and isinstance(spot.node.value, int | float)
        if numeric and takes_text(kind) and "quotes" not in wanted:
            wanted = f"{wanted}, in quotes"
        self.complain(spot, wanted, may_show=not takes_secret(kind))
        return stand_in(kind)

    def value(self, kind: inspect.Type, spot: _Spot) -> object:
        """Read a value of any type."""
        match kind:
            case inspect.Metadata():
                return self.marked(kind, spot)
            case inspect.UnionType():
                return self.union(kind, spot)
            case inspect.StructType():
                return self.struct(kind, spot)
            case inspect.VarTupleType():
                return self.items(kind, spot)
            case inspect.TupleType():
                return self.fixed_items(kind, spot, expected_in_words(kind))
            case _:
                fitting = isinstance(spot.node, Leaf) and fits(kind, spot.node.value)
                return spot.node.value if fitting and isinstance(spot.node, Leaf) else self.misfit(spot, kind)

    def marked(self, kind: inspect.Metadata, spot: _Spot) -> object:
        """Types with a marker of ours, or with words of their own."""
        authored = (kind.extra or {}).get("authored")
        bare = kind.type
        if authored == "json":
            return self.json(spot)
        if authored == "mapping" and isinstance(bare, inspect.VarTupleType):
            return self.entries(bare, spot)
        if authored == "zero" and isinstance(spot.node, Leaf) and spot.node.value == 0 and is_int(spot.node.value):
            return "0"
        if isinstance(bare, inspect.TupleType):
            return self.fixed_items(bare, spot, expected_in_words(kind))
        if isinstance(bare, inspect.StrType | inspect.IntType):
            fitting = isinstance(spot.node, Leaf) and fits(bare, spot.node.value)
            return spot.node.value if fitting and isinstance(spot.node, Leaf) else self.misfit(spot, kind)
        return self.value(bare, spot)

    def json(self, spot: _Spot) -> str:
        """Any value; what is broken inside has been reported where it stands."""
        if has_broken(spot.node):
            self.broken.append(spot.path)
            return ""
        return as_json(spot.node)

    def union(self, kind: inspect.UnionType, spot: _Spot) -> object:
        """The member that takes this sort of value; among tagged structs the one that the tag names."""
        fitting = [choice for choice in kind.types if takes(choice, spot.node)]
        tagged = [choice for choice in fitting if isinstance(choice, inspect.StructType) and choice.tag is not None]
        if len(tagged) > 1 and isinstance(spot.node, Mapping):
            return self.tagged(tagged, spot.node, spot, kind)
        if not fitting:
            return self.misfit(spot, kind)
        scalars = [c for c in fitting if isinstance(spot.node, Leaf) and fits(inner(c), spot.node.value)]
        if isinstance(spot.node, Leaf) and not scalars and not any(map(is_json, fitting)):
            return self.misfit(spot, kind)
        return self.value(scalars[0] if scalars else fitting[0], spot)

    def tagged(self, choices: list[inspect.StructType], node: Mapping, spot: _Spot, kind: inspect.UnionType) -> object:
        field = str(choices[0].tag_field)
        entry = next((entry for entry in node.entries if entry.key == field), None)
        if entry is None:
            found, expected = f"a mapping without {field!r}", expected_in_words(kind)
            self.problems.append(Malformed(at=self.at(spot), found=found, expected=expected))
        else:
            for choice in choices:
                if isinstance(entry.value, Leaf) and entry.value.value == choice.tag:
                    return self.struct(choice, spot)
            tags = one_of([repr(str(choice.tag)) for choice in choices])
            self.complain(_Spot(node=entry.value, path=child(spot.path, field), line=entry.line), tags)
        self.broken.append(spot.path)
        return stand_in(kind)

    def struct(self, kind: inspect.StructType, spot: _Spot) -> object:
        """Every known field is read, every unknown one reported."""
        if not isinstance(spot.node, Mapping):
            return self.misfit(spot, kind)
        given = {entry.key: entry for entry in spot.node.entries}
        values: dict[str, object] = {}
        if kind.tag_field is not None:
            self.check_tag(kind, kind.tag_field, given, spot)
        meant = self.unknown(kind, spot)
        for field in kind.fields:
            path = child(spot.path, field.encode_name)
            entry = given.get(field.encode_name)
            if entry is not None:
                values[field.name] = self.value(field.type, _Spot(node=entry.value, path=path, line=entry.line))
            elif field.encode_name in meant:
                self.broken.append(path)
            elif field.required:
                self.problems.append(MissingField(at=self.at(spot), field=field.encode_name))
                self.broken.append(path)
            if field.required and field.name not in values:
                values[field.name] = stand_in(field.type)
        return kind.cls(**values)

    def check_tag(self, kind: inspect.StructType, field: str, given: dict[str, Entry], spot: _Spot) -> None:
        entry = given.get(field)
        if entry is None:
            self.problems.append(MissingField(at=self.at(spot), field=field))
            self.broken.append(spot.path)
        elif not isinstance(entry.value, Leaf) or entry.value.value != kind.tag:
            tag_spot = _Spot(node=entry.value, path=child(spot.path, field), line=entry.line)
            self.complain(tag_spot, repr(str(kind.tag)))
            self.broken.append(spot.path)

    def unknown(self, kind: inspect.StructType, spot: _Spot) -> set[str]:
        """Report unknown fields; gives the fields that they were probably meant to be."""
        known = [field.encode_name for field in kind.fields]
        known += [kind.tag_field] if kind.tag_field else []
        present = {entry.key for entry in spot.node.entries} if isinstance(spot.node, Mapping) else set()
        meant: set[str] = set()
        for entry in spot.node.entries if isinstance(spot.node, Mapping) else ():
            if entry.key not in known:
                absent = nearest(entry.key, [name for name in known if name not in present])
                deeper = next((name for name in nested_names(kind) if name.endswith(f".{entry.key}")), None)
                at = At(source=self.source, path=child(spot.path, entry.key), line=entry.line)
                suggestion = deeper or absent or nearest(entry.key, known)
                self.problems.append(UnknownField(at=at, allowed=tuple(known), suggestion=suggestion))
                meant |= {absent} if absent and deeper is None else set()
        return meant

    def items(self, kind: inspect.VarTupleType, spot: _Spot) -> object:
        if not isinstance(spot.node, Sequence):
            return self.misfit(spot, kind, "a list (- …)")
        if kind.min_length is not None and len(spot.node.items) < kind.min_length:
            return self.misfit(spot, kind, f"a list of at least {kind.min_length}")
        return tuple(
            self.value(kind.item_type, _Spot(node=item, path=f"{spot.path}[{index}]", line=item.line))
            for index, item in enumerate(spot.node.items)
        )

    def fixed_items(self, kind: inspect.TupleType, spot: _Spot, expected: str) -> object:
        if not isinstance(spot.node, Sequence) or len(spot.node.items) != len(kind.item_types):
            return self.misfit(spot, kind, expected)
        return tuple(
            self.value(item_type, _Spot(node=item, path=f"{spot.path}[{index}]", line=item.line))
            for index, (item, item_type) in enumerate(zip(spot.node.items, kind.item_types, strict=True))
        )

    def entries(self, kind: inspect.VarTupleType, spot: _Spot) -> object:
        """A mapping with free keys, as a tuple of structs with `name` and `value`."""
        if not isinstance(spot.node, Mapping):
            return self.misfit(spot, kind, "a mapping (name: value)")
        if kind.min_length is not None and len(spot.node.entries) < kind.min_length:
            return self.misfit(spot, kind, f"a mapping with at least {kind.min_length} entry")
        item = kind.item_type
        if not isinstance(item, inspect.StructType):
            raise TypeError("FROM_MAPPING marks tuples of structs only")
        types = {field.name: field.type for field in item.fields}
        return tuple(self.entry(item, types, entry, child(spot.path, entry.key)) for entry in spot.node.entries)

    def entry(self, item: inspect.StructType, types: dict[str, inspect.Type], entry: Entry, path: str) -> object:
        if not fits(inner(types["name"]), entry.key):
            found = f"the name {entry.key[:60]!r}"
            at = At(source=self.source, path=path, line=entry.line)
            self.problems.append(Malformed(at=at, found=found, expected=expected_in_words(types["name"])))
            self.broken.append(path)
        value = self.value(types["value"], _Spot(node=entry.value, path=path, line=entry.line))
        return item.cls(name=entry.key, value=value)
