"""Whether this machine can carry a Slurm cluster of namespaces, and what to do where it cannot."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache

PACKAGES = "slurm-wlm slurmdbd munge mariadb-server iproute2 util-linux"
INSTALL = f"apt-get install -y --no-install-recommends {PACKAGES}"
_COMMANDS = (
    "slurmctld slurmd slurmdbd sbatch srun munged mariadbd mariadb-install-db ip nsenter unshare setpriv".split()
)
_TRY = "mount -t tmpfs tmpfs /run && ip link add br0 type bridge && ip link add v0 type veth peer name v1"
_NAMESPACES = [*"unshare --net --uts --ipc --mount --pid --fork --mount-proc sh -c".split(), _TRY]
_DEVICE = ("sh", "-c", 'file=$(mktemp -u) && mknod "$file" c 122 0 && rm "$file"')
_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


@cache
def why_not() -> str | None:
    """The reason why no cluster can be started here, None if one can."""
    if os.geteuid() != 0:
        return f"not root, which namespaces and device files need; run as root after: {INSTALL}"
    missing = [command for command in _COMMANDS if shutil.which(command, path=_SEARCHED) is None]
    if missing or not os.path.isdir("/etc/slurm"):
        return f"missing {' '.join(missing) or '/etc/slurm'}; {INSTALL}"
    return _unable("namespaces, mounts and links", _NAMESPACES) or _unable("device files", _DEVICE)


def _unable(what: str, argv: Sequence[str]) -> str | None:
    tried = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    return f"no {what} here ({tried.stderr.strip()}); needs a privileged container" if tried.returncode else None


def must_run(environ: Mapping[str, str]) -> bool:
    """Whether being unable is a failure: in CI, which sets CI."""
    return environ.get("CI", "").lower() not in ("", "0", "false", "no")
