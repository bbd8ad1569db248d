"""Sizes that this process may use. Runs inside the serving container: standard library only."""

import os
import resource
from collections.abc import Iterator

_UNLIMITED_FILES = 2**31 - 1


def usable_cpus() -> int:
    """CPUs that the process may run on."""
    return len(os.sched_getaffinity(0))


def memory_mib() -> int:
    """The smallest limit of any control group above the process, or all the memory of the node."""
    return min([_physical_bytes(), *group_limits()]) >> 20


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def group_limits(proc: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> Iterator[int]:
    """Limits from the process's own group up to the root, for versions 1 and 2."""
    try:
        with open(proc) as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for _, controllers, path in rows:
        if controllers == "":
            yield from _limits_above(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_above(f"{root}/memory", path, "memory.limit_in_bytes")


def _limits_above(root: str, path: str, name: str) -> Iterator[int]:
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        try:
            with open("/".join((root, *parts[:depth], name))) as file:
                yield int(file.read())
        except (OSError, ValueError):
            continue


def shm_mib(path: str = "/dev/shm") -> int:
    """The size of the shared memory file system, 0 where there is none."""
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize >> 20


def open_files() -> tuple[int, int]:
    """Soft and hard limit of open files; a very large number for none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return tuple(_UNLIMITED_FILES if limit == resource.RLIM_INFINITY else limit for limit in (soft, hard))  # type: ignore[return-value]
