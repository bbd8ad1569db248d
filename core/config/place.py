"""Where a rule stands in the file, and which fields it can trust."""

from collections.abc import Iterable, Iterator

import msgspec

from core.config.located import Located
from core.config.tree import child
from core.problem import At


class Unsound(msgspec.Struct, frozen=True, kw_only=True):
    """Paths that could not be read, and all paths above them: asking costs as much as the path is deep."""

    paths: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()

    def touches(self, path: str) -> bool:
        """Whether something at, in or around `path` could not be read."""
        return path in self.above or any(outer in self.paths for outer in _outwards(path))


def unsound(broken: Iterable[str]) -> Unsound:
    """From the paths that could not be read."""
    paths = frozenset(broken)
    return Unsound(paths=paths, above=frozenset(outer for path in paths for outer in _outwards(path)))


def _outwards(path: str) -> Iterator[str]:
    """``a.b[0]``, ``a.b``, ``a`` and the whole file."""
    yield path
    while path:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
        yield path


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A path in an authored file. No rule must judge what is `unsound`."""

    file: Located[None]
    unsound: Unsound = Unsound()
    path: str = ""

    def at(self, name: str = "") -> At:
        """Where the field `name` stands, or this place itself."""
        return self.file.at(self.into(name).path)

    def into(self, name: str) -> "Place":
        """The place of a field; ``a.b`` goes down two levels."""
        path = child(self.path, name) if name else self.path
        return Place(file=self.file, unsound=self.unsound, path=path)

    def item(self, name: str, index: int) -> "Place":
        """The place of an element of the list `name`."""
        return self.into(name).element(index)

    def element(self, index: int) -> "Place":
        """The place of an element of the list that stands here."""
        return Place(file=self.file, unsound=self.unsound, path=f"{self.path}[{index}]")

    def sound(self, *names: str) -> bool:
        """Whether all these fields, or this place itself, were read without a problem."""
        return not any(self.unsound.touches(child(self.path, name) if name else self.path) for name in names or ("",))

    def given(self, name: str) -> bool:
        """Whether the author wrote the field, even with its default value."""
        return self.file.line_of(child(self.path, name)) is not None
