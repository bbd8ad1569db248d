"""Since when tasks have been missing in the queue, over all looks at a run from this host since it was booted.

A single ``dd-slurm status`` sees one moment only; without a memory it would say for ever that accounting is late. Times
are of the clock that never jumps, which begins anew with every boot, so the file says which boot of which host.
"""

import contextlib
import socket
from collections.abc import Collection, Mapping

import msgspec

from core.codec import canonical_json
from core.record.sightings import Absence
from core.units import MonotonicMs
from shell.store import write_atomic

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """A task and the first look at which it was missing."""

    task: str
    since_ms: int


class AbsenceFile(msgspec.Struct, frozen=True, kw_only=True):
    """`absences.json`."""

    boot: str
    missing: tuple[Since, ...]


def absences(path: str, missing: Collection[str], now: MonotonicMs) -> tuple[Absence, ...]:
    """For how long each has been missing; written down for the next look, where the folder can be written."""
    boot = _boot()
    before = _read(path, boot)
    since = {task: min(before.get(task, now), now) for task in missing}
    if since != before:
        file = AbsenceFile(boot=boot, missing=tuple(Since(task=task, since_ms=ms) for task, ms in since.items()))
        with contextlib.suppress(OSError):
            write_atomic(path, canonical_json(file))
    return tuple(Absence(task=task, for_ms=now - ms) for task, ms in since.items())


def _read(path: str, boot: str) -> Mapping[str, int]:
    try:
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(), type=AbsenceFile)
    except (OSError, msgspec.MsgspecError):
        return {}
    return {one.task: one.since_ms for one in found.missing} if found.boot == boot else {}


def _boot() -> str:
    try:
        with open(_BOOT_ID) as file:
            return f"{socket.gethostname()} {file.read().strip()}"
    except OSError:
        return socket.gethostname()
