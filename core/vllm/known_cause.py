"""The form of an entry in the catalogue of known causes."""

from typing import Literal, TypeAlias

import msgspec

Weight: TypeAlias = Literal["cause", "symptom", "echo", "end"]
"""*cause*: it is what is wrong. *symptom*: it may follow from something else, on this node or another. *echo*: it
always follows from the end of another process. *end*: it only says that something ended; what is wrong stands
elsewhere."""

WEIGHTS: tuple[Weight, ...] = ("cause", "symptom", "echo", "end")


class KnownCause(msgspec.Struct, frozen=True, kw_only=True):
    """`patterns` are regular expressions, each for one line; their named groups may stand in `hint` as ``{name}``."""

    code: str
    title: str
    patterns: tuple[str, ...]
    hint: str
    weight: Weight = "cause"
    refines: str | None = None
    """The code of a cause that says less: where both are found in one log, this one counts."""
    exits: tuple[int, ...] = ()
    """Exit codes that say the same without a word in the log; negative: a signal."""
