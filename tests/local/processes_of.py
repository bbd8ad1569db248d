"""Finding the processes of a test by a variable that all of them inherit. A dead process has no environment."""

import os
from pathlib import Path
from typing import NamedTuple

MARK = "LOCAL_TEST_MARK"


class Process(NamedTuple):
    """A living process."""

    pid: int
    parent: int
    command: str


def processes_of(mark: str) -> dict[int, Process]:
    """All living processes that carry the mark, by their ids."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", name)
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            found[int(name)] = Process(int(name), int(parent), command)
    return found


def victim(mark: str, controllers_guard: int, which: str) -> int | None:
    """The id of the process that a test means, once it is there."""
    module, parents_module = VICTIMS[which]
    living = processes_of(mark)
    for process in living.values():
        parent = living[process.parent].command if process.parent in living else ""
        if which == "controller's guard":
            return controllers_guard
        if module in process.command and parents_module in parent:
            return process.pid
    return None


VICTIMS = {
    "controller's guard": ("shell.run", ""),
    "controller": ("shell.run", "shell.run"),
    "node worker's guard": ("shell.node serve", "shell.run"),
    "node worker": ("shell.node serve", "shell.node serve"),
    "server rank": ("shell.simulate", "shell.node serve"),
    "engine of a rank": ("shell.simulate", "shell.simulate"),
    "endpoint": ("shell.endpoint", "shell.run"),
    "client's guard": ("shell.client", "shell.run"),
    "client": ("shell.client", "shell.client"),
    "program of the client": ("program.py", "shell.client"),
    "facts worker": ("shell.node facts", ""),
    "facts worker of sim01": ("--address 127.0.1.1 ", "shell.run"),
    "facts worker of sim02": ("--address 127.0.1.2 ", "shell.run"),
}
"""What the command line of the process holds, and that of its parent."""
