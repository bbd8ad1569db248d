"""Files that a reader meets either old or new, whatever crashes: the only code that writes state.

A write is a temporary file, fsync, rename, fsync of the folder; on NFS too, without locks. Files are 0600, folders
0700. Standard library only: node workers use it inside the serving container.
"""

import contextlib
import os
from collections.abc import Iterator


def make_folder(path: str) -> None:
    """The folder and those parents that are missing, readable by their owner only."""
    parent = os.path.dirname(path.rstrip("/"))
    if parent and not os.path.lexists(parent):
        make_folder(parent)
    os.makedirs(path, mode=0o700, exist_ok=True)


def write_atomic(path: str, content: bytes) -> None:
    """Replace the file as a whole."""
    with _temporary(path, content) as temporary:
        os.replace(temporary, path)
    sync_folder(os.path.dirname(path))


def create_once(path: str, content: bytes) -> bool:
    """Make the file unless it exists already; whoever links first wins. False when somebody else did."""
    with _temporary(path, content) as temporary:
        try:
            os.link(temporary, path)
            won = True
        except FileExistsError:
            won = _same_file(temporary, path)
    sync_folder(os.path.dirname(path))
    return won


@contextlib.contextmanager
def _temporary(path: str, content: bytes) -> Iterator[str]:
    """A file beside `path` with this content, gone afterwards; its name is one that no other process or node has."""
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        _write_new(temporary, content)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _same_file(left: str, right: str) -> bool:
    """NFS may carry out a link and lose the answer; the client then repeats it and is told that the name exists."""
    return os.path.samefile(left, right)


def append_line(descriptor: int, line: bytes) -> None:
    """One line at the end of a journal, on disk before this returns."""
    view = memoryview(line + b"\n")
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def open_journal(path: str) -> int:
    """A descriptor for `append_line`. A half-written last line of a crash is cut off by starting a new one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
    return descriptor


def _write_new(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """What was made, renamed or removed in the folder is so on disk."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
