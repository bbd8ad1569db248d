"""A value together with where its parts stand in the file that it came from."""

from typing import Generic, TypeVar

import msgspec

from core.problem import At

T = TypeVar("T")


class LineOf(msgspec.Struct, frozen=True, kw_only=True):
    """The line, counted from 1, on which the value at `path` stands."""

    path: str
    line: int


class Located(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`source` is the name of the file; `lines` is sorted by path."""

    value: T
    source: str
    lines: tuple[LineOf, ...] = ()

    def at(self, path: str) -> At:
        """Where `path` is; its line is that of the nearest enclosing part that stands in the file."""
        known = {entry.path: entry.line for entry in self.lines}
        place = path
        while place and place not in known:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return At(source=self.source, path=path, line=known.get(place))
