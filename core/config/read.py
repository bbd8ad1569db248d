"""Bytes of authored files → checked values with their lines, or every problem of the file at once, in its order."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from core.config.located import Located
from core.config.place import Place, Unsound, unsound
from core.config.profile import Profile, ProfileCatalog
from core.config.profile_rules import catalog_problems, choose_cluster
from core.config.raw import parse
from core.config.rules import run_problems
from core.config.run_config import RunConfig
from core.config.shape import shape
from core.config.tree import Leaf, Mapping, Node, Sequence, child, lines_of
from core.outcome import Outcome, unless
from core.problem import At, ForbiddenSyntax, Problem, Problems

__all__ = ["Profile", "choose_cluster", "draft_run_file", "read_profile_catalog", "read_run_file"]

T = TypeVar("T", bound=msgspec.Struct)

_TEMPLATES = ("builder.inline", "client.command")
"""Where ``${…}`` is text for somebody else: prompts and templates, and words for a program that may be a shell."""


class Draft(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A file as far as it can be read, and all that is wrong with it. What is `unsound` are stand-ins."""

    located: Located[T]
    unsound: Unsound
    problems: Problems

    @property
    def place(self) -> Place:
        """The whole file, for further rules."""
        file = Located(value=None, source=self.located.source, lines=self.located.lines)
        return Place(file=file, unsound=self.unsound)


def draft_run_file(source_name: str, content: bytes) -> Draft[RunConfig]:
    """A run file, YAML or JSON by the ending of its name, else by its first character.

    Problems: all of syntax; or else all of form and rules, by line.
    """
    return _draft(source_name, content, RunConfig, run_problems, _TEMPLATES)


def read_run_file(source_name: str, content: bytes) -> Outcome[Located[RunConfig]]:
    """A run file without problems."""
    return _finished(draft_run_file(source_name, content))


def read_profile_catalog(source_name: str, content: bytes) -> Outcome[Located[ProfileCatalog]]:
    """A profile catalog, by the same rules as a run file."""
    return _finished(_draft(source_name, content, ProfileCatalog, catalog_problems, ()))


def _finished(draft: Draft[T]) -> Outcome[Located[T]]:
    return unless(draft.problems, draft.located)


def _draft(
    source: str,
    content: bytes,
    kind: type[T],
    rules: Callable[[T, Place], Iterator[Problem]],
    templates: tuple[str, ...],
) -> Draft[T]:
    parsed = parse(source, content)
    shaped = shape(source, parsed.root, kind)
    located = Located(value=shaped.value, source=source, lines=lines_of(parsed.root))
    if not parsed.whole:
        return Draft(located=located, unsound=unsound(("",)), problems=_in_order(parsed.problems))
    known = Draft(located=located, unsound=unsound(shaped.broken), problems=())
    ruled = tuple(rules(shaped.value, known.place))
    variables = tuple(_interpolations(source, parsed.root, "", 1, templates))
    problems = _in_order((*parsed.problems, *variables, *shaped.problems, *ruled))
    return Draft(located=located, unsound=known.unsound, problems=problems)


def _in_order(problems: Problems) -> Problems:
    """By line, then path; each once, and in the order of discovery where both are equal."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: (problem.at.line or 0, problem.at.path)))


def _interpolations(source: str, node: Node, path: str, line: int, templates: tuple[str, ...]) -> Iterator[Problem]:
    """Where the author expects ``${VAR}`` to be replaced. Nothing is: a plan must not depend on who reads a file."""
    if path in templates:
        return
    if isinstance(node, Leaf) and isinstance(node.value, str) and "${" in node.value:
        at = At(source=source, path=path, line=line)
        yield ForbiddenSyntax(at=at, feature="references to environment variables (${…})")
    elif isinstance(node, Mapping):
        for entry in node.entries:
            below = child(path, entry.key)
            yield from _interpolations(source, Leaf(value=entry.key, line=entry.line), below, entry.line, templates)
            yield from _interpolations(source, entry.value, below, entry.line, templates)
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from _interpolations(source, item, f"{path}[{index}]", item.line, templates)
