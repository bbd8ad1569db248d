"""A value together with where its parts stand in the file that it came from."""

from bisect import bisect_left
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
        place = path
        while (line := self.line_of(place)) is None and place:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return At(source=self.source, path=path, line=line)

    def line_of(self, path: str) -> int | None:
        """The line of `path` itself; None when it is not written in the file."""
        index = bisect_left(self.lines, path, key=lambda entry: entry.path)
        return self.lines[index].line if index < len(self.lines) and self.lines[index].path == path else None
