from typing import Any
from collections.abc import Iterator, Sequence

class ArrowException(Exception): ...

class Field:
    name: str
    type: object

class Schema:
    def __iter__(self) -> Iterator[Field]: ...

def unify_schemas(schemas: Sequence[Schema], *, promote_options: str = ...) -> Schema: ...

def __getattr__(name: str) -> Any: ...
