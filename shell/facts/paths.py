"""State of paths as servers will see them. Runs inside the serving container: standard library only.

A stale network mount may answer with an error or not at all.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence

from core.plan.facts import PathFact, PathKind, PathState, PathWanted
from shell.facts.patience import answers

ANSWER_WITHIN_S = 5.0
_STALE = {errno.ESTALE, errno.ENOTCONN, errno.EIO, errno.EHOSTDOWN, errno.ETIMEDOUT}
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_IS_KIND: dict[PathKind, Callable[[int], bool]] = {
    "file": stat.S_ISREG,
    "executable": stat.S_ISREG,
    "directory": stat.S_ISDIR,
}

Look = Callable[[PathWanted], PathFact]


def path_facts(wanted: Sequence[PathWanted], within_s: float = ANSWER_WITHIN_S) -> tuple[PathFact, ...]:
    """The state of each path, in order. Never takes longer than `within_s`, whatever hangs."""
    return look_at_all(wanted, look_at, within_s)


def look_at_all(wanted: Sequence[PathWanted], look: Look, within_s: float) -> tuple[PathFact, ...]:
    """What `look` says about each; "stale" where it does not come back in time."""
    return tuple(
        fact or _fact(one, "stale", f"no answer within {within_s:g} s")
        for one, fact in zip(wanted, answers(wanted, look, within_s), strict=True)
    )


def look_at(wanted: PathWanted) -> PathFact:
    """Open it as a server would: being there is not enough."""
    try:
        mode = os.stat(wanted.path).st_mode
        if not _IS_KIND[wanted.kind](mode):
            return _fact(wanted, "wrong-type", f"it is {_kind_of(mode)}")
        _read(wanted)
    except OSError as error:
        return _fact(wanted, _state_of(error), f"[{errno.errorcode.get(error.errno or 0)}] {error.strerror}")
    return _fact(wanted, "fine", "")


def _read(wanted: PathWanted) -> None:
    if wanted.kind == "executable":
        if not os.access(wanted.path, os.X_OK):
            raise PermissionError(errno.EACCES, "it may not be executed")
    elif wanted.kind == "directory":
        if not os.access(wanted.path, os.X_OK):
            raise PermissionError(errno.EACCES, "it may not be entered")
        with os.scandir(wanted.path) as entries:
            next(entries, None)
    else:
        descriptor = os.open(wanted.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.read(descriptor, 1)
        finally:
            os.close(descriptor)


def _state_of(error: OSError) -> PathState:
    if error.errno in _MISSING:
        return "missing"
    return "stale" if error.errno in _STALE else "unreadable"


def _kind_of(mode: int) -> str:
    names = ((stat.S_ISDIR, "a directory"), (stat.S_ISREG, "a file"), (stat.S_ISSOCK, "a socket"))
    return next((name for is_kind, name in names if is_kind(mode)), "neither file nor directory")


def _fact(wanted: PathWanted, state: PathState, detail: str) -> PathFact:
    return PathFact(path=wanted.path, kind=wanted.kind, state=state, detail=detail)
