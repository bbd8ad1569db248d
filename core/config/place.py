"""Where a rule stands in the file, and which fields it can trust."""

import msgspec

from core.config.located import Located
from core.config.tree import child
from core.problem import At


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A path in an authored file. `broken` are paths that could not be read: no rule must judge what is there."""

    file: Located[None]
    broken: tuple[str, ...]
    path: str = ""

    def at(self, name: str = "") -> At:
        """Where the field `name` stands, or this place itself."""
        return self.file.at(self.into(name).path)

    def into(self, name: str) -> "Place":
        """The place of a field; ``a.b`` goes down two levels."""
        path = child(self.path, name) if name else self.path
        return Place(file=self.file, broken=self.broken, path=path)

    def item(self, name: str, index: int) -> "Place":
        """The place of an element of the list `name`."""
        return Place(file=self.file, broken=self.broken, path=f"{child(self.path, name)}[{index}]")

    def sound(self, *names: str) -> bool:
        """Whether all these fields, or this place itself, were read without a problem."""
        paths = [child(self.path, name) for name in names] or [self.path]
        return not any(_touches(bad, path) for bad in self.broken for path in paths)

    def given(self, name: str) -> bool:
        """Whether the author wrote the field, even with its default value."""
        return self.file.line_of(child(self.path, name)) is not None


def _touches(bad: str, path: str) -> bool:
    return bad == path or _inside(bad, path) or _inside(path, bad)


def _inside(path: str, outer: str) -> bool:
    return not outer or path.startswith((f"{outer}.", f"{outer}["))
