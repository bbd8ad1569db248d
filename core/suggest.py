"""Near misses: what somebody probably meant to write."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, if any looks like it at all."""
    matches = difflib.get_close_matches(name.lower(), {k.lower(): k for k in known}, n=1, cutoff=0.6)
    return next((k for k in known if matches and k.lower() == matches[0]), None)
