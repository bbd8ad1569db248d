"""Which processes run on a node of a test cluster, seen from outside of it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_DAEMONS = ("munged", "slurmd", "slurmctld", "slurmdbd", "mariadbd")


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process on a node. `pid` is the one that this machine uses outside of all nodes."""

    pid: int
    uid: int
    command: str


def processes_like(pid: int, kind: Literal["net", "pid"]) -> tuple[Process, ...]:
    """All processes in the same namespace of that kind."""
    own = _namespace(pid, kind)
    found = (_process(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return tuple(one for one in found if one is not None and _namespace(one.pid, kind) == own)


def _namespace(pid: int, kind: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None


def _process(pid: int) -> Process | None:
    """None for a process that is gone or a zombie, which holds nothing any more."""
    folder = Path("/proc", str(pid))
    try:
        words = folder.joinpath("cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
        return Process(pid=pid, uid=folder.stat().st_uid, command=words.decode(errors="replace")) if words else None
    except OSError:
        return None


def is_of_the_node(command: str) -> bool:
    """Whether this is part of the node itself, not of a job: its init or a daemon."""
    name = command.partition(" ")[0].rpartition("/")[2]
    return name in _DAEMONS or command in ("sleep 100000", ": slurmscriptd") or command.startswith("slurmctld:")
