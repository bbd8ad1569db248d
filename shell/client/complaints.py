"""What Data Designer prints about a config that it refuses: its exception says only that something is wrong.

The printed form is for people and may change; what cannot be taken apart is passed on as it stands, never lost.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_WIDE = "1000"
"""Columns of the terminal that is pretended, so that sentences are not broken."""
_RULE = re.compile(r"─{3,}")
_COLUMN = re.compile(r"\s*─+ Column: (?P<name>.+?) ─+\s*")
_KIND = re.compile(r"\W*(?P<level>ERROR|WARNING) \| (?P<kind>\w+)\s*")


class Complaint(NamedTuple):
    """One thing that is wrong, with the column that it is about, if any."""

    column: str | None
    kind: str
    text: str


def listen(work: Callable[[], object]) -> tuple[Exception | None, str]:
    """Let Data Designer work: what it raised, and what it printed meanwhile, which also goes to the log."""
    heard = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDE
    raised: Exception | None = None
    try:
        with contextlib.redirect_stdout(heard):
            work()
    except Exception as error:  # readers of seed files and plugins raise what they like
        raised = error
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    for line in heard.getvalue().splitlines():
        print(_RULE.sub("───", line).rstrip(), flush=True)
    return raised, heard.getvalue()


def complaints(printed: str) -> Iterator[Complaint]:
    """The errors among what was printed; warnings stop nobody."""
    column: str | None = None
    level, kind, words = "", "", list[str]()
    for line in (*printed.splitlines(), "───"):
        if _RULE.search(line):
            if level == "ERROR":
                yield Complaint(column, kind, " ".join(words))
            named = _COLUMN.fullmatch(line)
            column, level, words = named["name"] if named else None, "", []
        elif said := _KIND.fullmatch(line):
            level, kind = said["level"], said["kind"].lower().replace("_", " ")
        else:
            words += line.split()
