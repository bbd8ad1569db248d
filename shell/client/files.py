"""Files below an output folder, with digests. Needs no package of the client: the controller looks with it too."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from core.result import ObservedFile, is_inside


def observe(folder: str, paths: Iterable[str]) -> tuple[ObservedFile, ...]:
    """Those of `paths`, relative to `folder`, that are regular files there. Links are not followed."""
    return tuple(found for path in paths if is_inside(path) and (found := _observe(folder, path)) is not None)


def _observe(folder: str, path: str) -> ObservedFile | None:
    if os.path.realpath(os.path.join(folder, path)) != os.path.join(os.path.realpath(folder), path):
        return None
    try:
        descriptor = os.open(os.path.join(folder, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ObservedFile(path=path, bytes=facts.st_size, sha256=digest)


def files_below(folder: str, start: str = "") -> Iterator[str]:
    """Relative paths of all files below ``folder/start``, in order; links are left out."""
    for parent, folders, names in os.walk(os.path.join(folder, start)):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                yield os.path.relpath(path, folder)
