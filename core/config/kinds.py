"""Questions about a type as `msgspec.inspect` shows it: what it takes, whether a value fits, what can stand in."""

from collections.abc import Iterator
from re import search

from msgspec import inspect

from core.config.tree import Leaf, Mapping, Node, Sequence


def stand_ins(kind: inspect.StructType) -> dict[str, object]:
    """Values for the fields that must be given."""
    return {field.name: stand_in(field.type) for field in kind.fields if field.required}


def stand_in(kind: inspect.Type) -> object:
    """Some value of the right sort, where none could be read. Nobody judges it."""
    match kind:
        case inspect.Metadata(type=bare):
            return stand_in(bare)
        case inspect.StructType():
            return kind.cls(**stand_ins(kind))
        case inspect.UnionType(types=types):
            return None if any(isinstance(choice, inspect.NoneType) for choice in types) else stand_in(types[0])
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType(ge=lowest):
            return lowest or 0
        case inspect.BoolType():
            return False
        case inspect.VarTupleType():
            return ()
        case inspect.TupleType(item_types=items):
            return tuple(stand_in(item) for item in items)
        case _:
            return ""


def inner(kind: inspect.Type) -> inspect.Type:
    """The type without its markers and words."""
    return inner(kind.type) if isinstance(kind, inspect.Metadata) else kind


def is_int(value: object) -> bool:
    """True and False are numbers to Python, but not to authors."""
    return isinstance(value, int) and not isinstance(value, bool)


def takes_text(kind: inspect.Type) -> bool:
    """Whether a text can stand there."""
    bare = inner(kind)
    choices = bare.types if isinstance(bare, inspect.UnionType) else (bare,)
    return any(isinstance(inner(choice), inspect.StrType) for choice in choices)


def takes_secret(kind: inspect.Type) -> bool:
    """Whether a reference to a secret can stand there; a text found in its place may well be the secret."""
    bare = inner(kind)
    choices = bare.types if isinstance(bare, inspect.UnionType) else (bare,)
    return any(isinstance(choice, inspect.StructType) and choice.tag == "secret" for choice in choices)


def is_json(kind: inspect.Type) -> bool:
    """Whether any value can stand there."""
    return isinstance(kind, inspect.Metadata) and (kind.extra or {}).get("authored") == "json"


def takes(kind: inspect.Type, node: Node) -> bool:
    """Whether the sort of the value is right; its form is another question."""
    bare = inner(kind)
    if is_json(kind):
        return not (isinstance(node, Leaf) and node.value is None)
    if isinstance(bare, inspect.StructType):
        return isinstance(node, Mapping)
    if isinstance(bare, inspect.VarTupleType | inspect.TupleType):
        return isinstance(node, Sequence)
    if not isinstance(node, Leaf):
        return False
    if isinstance(bare, inspect.NoneType):
        return node.value is None
    if isinstance(bare, inspect.IntType):
        return is_int(node.value)
    if isinstance(bare, inspect.LiteralType):
        return any(type(value) is type(node.value) for value in bare.values)
    return isinstance(node.value, str) if isinstance(bare, inspect.StrType) else isinstance(node.value, bool)


def fits(kind: inspect.Type, value: object) -> bool:
    """Whether a scalar has the form that the type demands."""
    match kind:
        case inspect.StrType():
            longest = kind.max_length if kind.max_length is not None else len(str(value))
            return (
                isinstance(value, str)
                and (kind.min_length or 0) <= len(value) <= longest
                and (kind.pattern is None or search(kind.pattern, value) is not None)
            )
        case inspect.IntType():
            low, high = kind.ge, kind.le
            return (
                isinstance(value, int)
                and not isinstance(value, bool)
                and (low is None or value >= low)
                and (high is None or value <= high)
            )
        case inspect.LiteralType(values=values):
            return any(type(allowed) is type(value) and allowed == value for allowed in values)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case _:
            return False


def nested_names(kind: inspect.StructType) -> Iterator[str]:
    """Fields of the structs inside a struct, as ``topology.tensor_parallel``."""
    for field in kind.fields:
        bare = inner(field.type)
        for choice in bare.types if isinstance(bare, inspect.UnionType) else (bare,):
            if isinstance(choice, inspect.StructType):
                yield from (f"{field.encode_name}.{below.encode_name}" for below in choice.fields)
