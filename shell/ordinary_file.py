"""Reading a file that somebody else named: a pipe would make us wait for ever, and a device would never end."""

import os
import stat

LARGEST_MIB = 64
_LARGEST = LARGEST_MIB << 20
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotOrdinary(Exception):
    """It is not read. `found` says what it is."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found


def read_ordinary(path: str) -> bytes:
    """The content of an ordinary file of moderate size.

    Errors: OSError; `NotOrdinary`. Nothing is opened before it is known to be a file: opening a device may act on it.
    """
    _judge(os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        _judge(os.fstat(descriptor))
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise NotOrdinary(f"more than {LARGEST_MIB} MiB")
    return content


def _judge(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotOrdinary(next((words for is_kind, words in _KINDS if is_kind(found.st_mode)), "no file"))
    if found.st_size > _LARGEST:
        raise NotOrdinary(f"{found.st_size >> 20} MiB")
