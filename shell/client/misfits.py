"""What Data Designer's own checks say, as our problems: with the place, and a near miss where a name is unknown."""

from collections.abc import Collection, Sequence

from pydantic import ValidationError

from core.problem import At, Malformed, MissingField, Problem, Problems, UnknownField
from core.suggest import nearest


def problems_of(error: ValidationError, source: str, prefix: str, known: Collection[str] = ()) -> Problems:
    """One problem per complaint. `known` are the fields that exist at the top."""
    return tuple(
        _problem(
            At(source=source, path=_path(prefix, said["loc"])),
            said["type"],
            said["msg"],
            repr(said["input"]),
            tuple(sorted(known)),
            str(said["loc"][-1]) if said["loc"] else "",
        )
        for said in error.errors(include_url=False)
    )


def _path(prefix: str, parts: Sequence[int | str]) -> str:
    path = prefix
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _problem(at: At, kind: str, message: str, found: str, known: tuple[str, ...], name: str) -> Problem:
    if kind == "extra_forbidden":
        return UnknownField(at=at, allowed=known, suggestion=nearest(name, known))
    if kind == "missing":
        return MissingField(at=at, field=name)
    return Malformed(at=at, found=found if len(found) <= 80 else f"{found[:77]}…", expected=_expected(message))


def _expected(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Input should be ").strip()
