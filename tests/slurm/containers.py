"""Images for the stand-ins of container runtimes, and the commands that start those."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.slurm.cluster import Cluster

RUNTIME = Path(__file__).parent / "container_runtime.py"
COMMANDS = ("sbatch", "scontrol", "squeue", "scancel", "sacct", "sinfo")
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")


def runtime_commands(cluster: Cluster, *names: str) -> Path:
    """A folder with Slurm's commands and the stand-ins ``srun`` or ``apptainer``."""
    folder = cluster.folder_for("bin")
    for name in names:
        _script(folder / name, f'exec {sys.executable} -S -E {RUNTIME} {name} "$@"')
    for name in COMMANDS if "srun" in names else ():
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return folder


def image(cluster: Cluster, version: str | None = None, **environment: str) -> Path:
    """An image with a Python that has msgspec, and ``vllm``: the simulated server, out of whatever bundle is there.

    Of this machine it shows the system and our Python, and nothing of the project. `version` is what its vLLM says.
    """
    folder = cluster.folder_for("image")
    programs = folder / "rootfs" / "opt" / "vllm" / "bin"
    programs.mkdir(parents=True)
    _script(programs / "python3", f'exec {sys.executable} "$@"')
    told = f'[ "$1" = --version ] && echo {version} && exit\n' if version else ""
    _script(programs / "vllm", f'{told}exec python3 -m shell.simulate "$@"')
    (folder / "rootfs" / "of-the-image").touch()
    brings = [path for path in (*_SYSTEM, *dict.fromkeys((sys.prefix, sys.base_prefix))) if _is_own(path)]
    (folder / "brings").write_text("".join(f"{path}\n" for path in brings))
    variables: Mapping[str, str] = {"PATH": "/opt/vllm/bin:/usr/bin:/bin", **environment}
    (folder / "environment").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return folder


def _is_own(path: str) -> bool:
    return os.path.exists(path) and not (path != "/usr" and path.startswith("/usr/"))


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
