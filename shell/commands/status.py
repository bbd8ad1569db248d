"""``dd-slurm status``: what is seen of a run, what it means, and what to do next."""

import os
import sys
import time
from collections.abc import Iterator

import msgspec
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.record.reconcile import reconcile
from core.record.sightings import Sightings
from core.record.table import StatusSaid, status_said, table
from core.record.words import caveats, say
from shell.commands.answer import refuse
from shell.operate.observe import observe
from shell.operate.opened import Opened, open_run, unreadable

EX_OK, EX_FAILED, INTERRUPTED = 0, 1, 130
EVERY_S = 10.0
_CLEAR = "\x1b[H\x1b[2J"


def status(folder: str, as_json: bool, watch: bool, every_s: float = EVERY_S) -> int:
    """0 while all is well: complete, or on its way; 1 when something needs a person."""
    opened = open_run(folder)
    if not is_successful(opened):
        return refuse(opened.failure(), as_json)
    try:
        code = EX_OK
        for said in _looks(opened.unwrap(), watch, every_s):
            _print(said, as_json, watch)
            code = EX_OK if said.complete or not _needs_someone(said) else EX_FAILED
        return code
    except (OSError, msgspec.MsgspecError) as error:
        return refuse((unreadable(folder, error),), as_json)
    except KeyboardInterrupt:
        return INTERRUPTED


def _looks(opened: Opened, watch: bool, every_s: float) -> Iterator[StatusSaid]:
    """One look, or one after the other until nothing changes by itself any more."""
    while True:
        said = said_of(opened, observe(opened.run.root, opened.plan, opened.scheduler))
        yield said
        if not watch or said.over:
            return
        pause(every_s)


def said_of(opened: Opened, seen: Sightings) -> StatusSaid:
    """The answer for people and programs."""
    root = opened.run.root
    shards = tuple(say(one, root) for one in reconcile(seen))
    held = any(one.state == "held" for one in seen.submissions)
    others = (f"dd-slurm submit {root}",) if held else ()
    return status_said(opened.record.run_id, root, shards, caveats(seen), others)


def pause(seconds: float) -> None:
    """Between two looks."""
    time.sleep(seconds)


def _needs_someone(said: StatusSaid) -> bool:
    well = {"completed", "pending", "running", "ending", "settling"}
    return any(one.state not in well for one in said.shards)


def _print(said: StatusSaid, as_json: bool, watch: bool) -> None:
    if as_json:
        sys.stdout.write(canonical_json(said).decode())
    else:
        clear = _CLEAR if watch and sys.stdout.isatty() and "NO_COLOR" not in os.environ else ""
        sys.stdout.write(clear + table(said))
    sys.stdout.flush()
