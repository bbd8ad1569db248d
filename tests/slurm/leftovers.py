"""What a cluster has left on this machine: processes, namespaces, mounts, files."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

_KINDS = ("net", "mnt", "uts", "ipc", "pid")


class HeldNamespaces:
    """Namespaces that are kept until the end of a `with`: Linux gives the number of one that is gone to the next."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def hold(self, pid: int) -> None:
        """Those which the process has and we do not."""
        for kind in _KINDS:
            if _link(f"/proc/{pid}/ns/{kind}") != _link(f"/proc/self/ns/{kind}"):
                self._open.append(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY))

    @property
    def names(self) -> tuple[str, ...]:
        """As in `/proc`: ``net:[4026531840]``."""
        return tuple(os.readlink(f"/proc/self/fd/{number}") for number in self._open)

    def __enter__(self) -> "HeldNamespaces":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        while self._open:
            os.close(self._open.pop())


def lasting_leftovers(folder: Path, namespaces: Sequence[str], timeout_s: float = 20) -> tuple[str, ...]:
    """What is still there when processes that were killed had time to go."""
    until = time.monotonic() + timeout_s
    while (found := leftovers(folder, namespaces)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def leftovers(folder: Path, namespaces: Sequence[str]) -> tuple[str, ...]:
    """One line for each thing that is still there. `namespaces` are those of its nodes, which must be held."""
    return (
        *_processes(folder, frozenset(namespaces)),
        *_named_namespaces(namespaces),
        *_mounts(folder, namespaces),
        *([f"folder {folder}"] if folder.exists() else []),
    )


def _processes(folder: Path, namespaces: frozenset[str]) -> Iterator[str]:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        links = {_link(f"/proc/{name}/ns/{kind}") for kind in _KINDS}
        at = _link(f"/proc/{name}/cwd")
        command = _read(Path("/proc", name, "cmdline")).replace("\0", " ").strip()
        # A process without a command is a zombie that waits for its parent, or a thread of the kernel.
        if (
            int(name) != os.getpid()
            and command
            and (links & namespaces or str(folder) in command or at == str(folder) or f"{folder}/" in at)
        ):
            yield f"process {name}: {command[:200]}"


def _named_namespaces(namespaces: Iterable[str]) -> Iterator[str]:
    """Those of ``ip netns``, which live without any process."""
    numbers = {int(word.partition("[")[2].rstrip("]")) for word in namespaces}
    for path in Path("/run/netns").glob("*"):
        if path.stat().st_ino in numbers:
            yield f"network namespace {path.name}"


def _mounts(folder: Path, namespaces: Sequence[str]) -> Iterator[str]:
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        if str(folder) in line or any(word in line for word in namespaces):
            yield f"mount {line}"


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    print(*leftovers(Path(sys.argv[1]), sys.argv[2:]), sep="\n")
