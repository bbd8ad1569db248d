"""Files that users name, or why they cannot be read."""

from returns.result import Success

from core.outcome import Outcome, refuse
from core.problem import At, Malformed, Unreadable
from shell.ordinary_file import LARGEST_MIB, NotOrdinary, read_ordinary


def read_file(path: str, named_at: At | None = None) -> Outcome[bytes]:
    """The content. `named_at` is where an authored file names it; None when the user named it on the command line.

    Errors: `Unreadable`, `Malformed`.
    """
    where, who = (At(source=path), "") if named_at is None else (named_at, path)
    try:
        return Success(read_ordinary(path))
    except OSError as error:
        said = error.strerror or str(error)
        return refuse(Unreadable(at=where, reason=f"{who}: {said}" if who else said))
    except ValueError as error:  # a NUL in the path
        return refuse(Unreadable(at=where, reason=str(error)))
    except NotOrdinary as wrong:
        found = f"{wrong.found} at {who!r}" if who else wrong.found
        return refuse(Malformed(at=where, found=found, expected=f"an ordinary file of at most {LARGEST_MIB} MiB"))
