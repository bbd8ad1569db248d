"""On which file system a path is, and how to tell whether another node has the same. Standard library only.

Runs inside the serving container.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

_OWN_DISKS = frozenset(
    "ext2 ext3 ext4 xfs btrfs zfs f2fs jfs reiserfs bcachefs tmpfs ramfs rootfs overlay squashfs "
    "fuse.fuse-overlayfs fuse.squashfuse fuse.squashfuse_ll".split()
)
"""File systems that one node has for itself. Those that are not known here are taken to be shared."""


class Mount(NamedTuple):
    """`place` is the same on two nodes exactly when the same files are there, as far as that can be told."""

    filesystem: str
    place: str


class _Row(NamedTuple):
    point: str
    root: str
    filesystem: str
    source: str


def mount_of(path: str, table: str = "/proc/self/mountinfo", boot: str = "/proc/sys/kernel/random/boot_id") -> Mount:
    """Where a path is or would be created."""
    real = os.path.realpath(path)
    rows = [row for row in _rows(table) if real == row.point or real.startswith(row.point.rstrip("/") + "/")]
    if not rows:
        return Mount("unknown", real)
    # A later mount on the same point hides an earlier one.
    row = max(enumerate(rows), key=lambda pair: (len(pair[1].point), pair[0]))[1]
    below = real[len(row.point.rstrip("/")) :]
    if row.filesystem not in _OWN_DISKS:
        return Mount(row.filesystem, f"{row.source} {row.root.rstrip('/')}{below}")
    return Mount(row.filesystem, f"{_text(boot)} {_device(row.point)} {row.root.rstrip('/')}{below}")


def _rows(table: str) -> Iterator[_Row]:
    """proc(5): id, parent, device, root, point, options, optional fields up to a dash, type, source, options."""
    for line in _text(table).splitlines():
        fields = line.split(" ")
        if "-" in fields[6:]:
            after = fields.index("-", 6)
            yield _Row(_plain(fields[4]), _plain(fields[3]), fields[after + 1], _plain(fields[after + 2]))


def _plain(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _device(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return 0


def _text(path: str) -> str:
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read().strip()
    except OSError:
        return ""
