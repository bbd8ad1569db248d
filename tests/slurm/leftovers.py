"""What a cluster has left on this machine: processes, namespaces, mounts, files."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_KINDS = ("net", "mnt", "uts", "ipc", "pid")


def leftovers(folder: Path, namespaces: Sequence[str]) -> tuple[str, ...]:
    """One line for each thing that is still there. `namespaces` are those of its nodes, as ``net:[4026531840]``."""
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
        if command and (links & namespaces or str(folder) in command or at == str(folder) or f"{folder}/" in at):
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
