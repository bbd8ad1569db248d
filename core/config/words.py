"""What was found and what is allowed, in words that a newcomer understands: no regular expressions, no type names."""

from collections.abc import Sequence as SequenceOf

import msgspec
from msgspec import inspect

from core.config.tree import Broken, Leaf, Mapping, Node, Sequence, written


def found_in_words(node: Node, may_show: bool) -> str:
    """What stands there. A text that might be a secret is not shown."""
    match node:
        case Leaf(value=None):
            return "nothing (null)"
        case Leaf(value=bool(value)):
            return written(value)
        case Leaf(value=str(text)):
            return f"the text {written(text)}" if may_show else "a text (not shown: it may be a secret)"
        case Leaf(value=value):
            return f"the number {written(value)}"
        case Sequence(items=items):
            return f"a list of {len(items)}" if items else "an empty list"
        case Mapping():
            return "a mapping" if node.entries else "an empty mapping"
        case Broken():
            return "something unreadable"


def one_of(names: SequenceOf[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def expected_in_words(kind: inspect.Type) -> str:
    """What a field of this type takes."""
    match kind:
        case inspect.Metadata(extra_json_schema=schema, type=inner):
            return str(schema["description"]) if schema and "description" in schema else expected_in_words(inner)
        case inspect.UnionType(types=types):
            choices = [expected_in_words(choice) for choice in types if not isinstance(choice, inspect.NoneType)]
            return one_of(list(dict.fromkeys(choices)))
        case inspect.LiteralType(values=values):
            return one_of([written(value) for value in sorted(values, key=str) if is_scalar(value)])
        case inspect.IntType():
            return _whole_number(kind)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "a text"
        case inspect.VarTupleType() | inspect.TupleType():
            return "a list"
        case inspect.StructType(tag_field=str(tag_field), tag=tag, fields=fields):
            needed = "".join(f", {field.encode_name}: …" for field in fields if field.required)
            return f"{{{tag_field}: {tag}{needed}}}"
        case inspect.StructType(fields=fields):
            names = [field.encode_name for field in fields]
            return f"a mapping with {', '.join(names[:6])}{' …' if len(names) > 6 else ''}"
        case _:
            return "a mapping"


def is_scalar(value: object) -> bool:
    """Whether a value can be written as one word."""
    return value is None or isinstance(value, str | int | float)


def _whole_number(kind: inspect.IntType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f"a whole number from {kind.ge} to {kind.le}"
    return "a whole number" if kind.ge is None else f"a whole number of at least {kind.ge}"


def as_builtins(node: Node) -> object:
    """The tree as plain values, in the author's order."""
    match node:
        case Leaf(value=value):
            return value
        case Sequence(items=items):
            return [as_builtins(item) for item in items]
        case Mapping(entries=entries):
            return {entry.key: as_builtins(entry.value) for entry in entries}
        case Broken():
            return None


def as_json(node: Node) -> str:
    """The tree as compact JSON text, in the author's order."""
    return msgspec.json.encode(as_builtins(node)).decode()


def has_broken(node: Node) -> bool:
    """Whether something in the tree could not be read."""
    match node:
        case Broken():
            return True
        case Sequence(items=items):
            return any(has_broken(item) for item in items)
        case Mapping(entries=entries):
            return any(has_broken(entry.value) for entry in entries)
        case Leaf():
            return False
