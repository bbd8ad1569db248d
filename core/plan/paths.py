"""Where a host path appears inside the container."""

import posixpath
from collections.abc import Sequence

from returns.result import Success

from core.config.profile import ContainerMount
from core.outcome import Outcome, refuse
from core.problem import At, PathNotMounted


def is_path(model: str) -> bool:
    """Whether a model is a path on the cluster rather than the name of a repository on a hub."""
    return model.startswith("/")


def map_path(path: str, mounts: Sequence[ContainerMount], at: At) -> Outcome[str]:
    """The path as the container sees it, through the mount with the longest source that holds it.

    Errors: `PathNotMounted` when none does.
    """
    parts = _parts(path)
    covering = [mount for mount in mounts if parts[: len(_parts(mount.source))] == _parts(mount.source)]
    if not covering:
        return refuse(PathNotMounted(at=at, path_on_host=path, mounts=tuple(m.source for m in mounts)))
    mount = max(covering, key=lambda candidate: len(_parts(candidate.source)))
    rest = parts[len(_parts(mount.source)) :]
    return Success("/" + "/".join((*_parts(mount.target), *rest)))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in posixpath.normpath(path).split("/") if part)
