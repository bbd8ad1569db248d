"""Our structs back in the form of an authored file, and random documents of that form, both by the types alone."""

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text("ab ${}é", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=5,
)


def as_authored(value: object) -> object:
    """What one would write in a run file to get this value; defaults are left out."""
    if not isinstance(value, msgspec.Struct):
        return [as_authored(item) for item in value] if isinstance(value, tuple) else value
    kind = inspect.type_info(type(value))
    assert isinstance(kind, inspect.StructType)
    tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
    given = {field.name: (field, getattr(value, field.name)) for field in kind.fields}
    return tag | {
        name: _field(field.type, inner)
        for name, (field, inner) in given.items()
        if field.required or field.default != inner
    }


def _field(kind: inspect.Type, value: object) -> object:
    marks = set(_marks(kind))
    if "json" in marks and isinstance(value, str):
        return msgspec.json.decode(value)
    if "mapping" in marks and isinstance(value, tuple):
        return {item.name: as_authored(item.value) for item in value}
    return as_authored(value)


def _marks(kind: inspect.Type) -> list[object]:
    if isinstance(kind, inspect.Metadata):
        return [(kind.extra or {}).get("authored"), *_marks(kind.type)]
    if isinstance(kind, inspect.UnionType):
        return [mark for choice in kind.types for mark in _marks(choice)]
    return []


def documents(kind: inspect.Type) -> st.SearchStrategy[object]:
    """Documents whose form fits a type, whatever the rules say about them."""
    match kind:
        case inspect.Metadata(extra=extra, type=bare):
            marker = (extra or {}).get("authored")
            if marker == "json":
                return JSON_VALUES.filter(lambda value: value is not None)
            if marker == "mapping":
                assert isinstance(bare, inspect.VarTupleType)
                return _free_mapping(bare)
            return documents(bare) | st.just(0) if marker == "zero" else documents(bare)
        case inspect.UnionType(types=types):
            return st.one_of([documents(choice) for choice in types])
        case inspect.StructType():
            return _mapping(kind)
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(documents(item), min_size=least or 0, max_size=2)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(documents, items)).map(list)
        case inspect.LiteralType(values=values):
            return st.sampled_from(list(values))
        case inspect.IntType(ge=low, le=high):
            return st.integers(0 if low is None else low, 10**6 if high is None else high)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.StrType(pattern=None):
            return st.text("abc ", max_size=5)
        case inspect.StrType(pattern=str(pattern)):
            return st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))
        case _:
            raise AssertionError(kind)


def _mapping(kind: inspect.StructType) -> st.SearchStrategy[object]:
    tag = {kind.tag_field: st.just(kind.tag)} if kind.tag_field else {}
    needed = {field.name: documents(field.type) for field in kind.fields if field.required}
    optional = {field.name: documents(field.type) for field in kind.fields if not field.required}
    return st.fixed_dictionaries(needed | tag, optional=optional).map(dict)


def _free_mapping(kind: inspect.VarTupleType) -> st.SearchStrategy[object]:
    assert isinstance(kind.item_type, inspect.StructType)
    types = {field.name: field.type for field in kind.item_type.fields}
    name = types["name"]
    free = isinstance(name, inspect.StrType) and name.pattern is None
    names = st.text("abc", min_size=1, max_size=3) if free else documents(name)
    return st.dictionaries(names, documents(types["value"]), min_size=kind.min_length or 0, max_size=2)
