"""What a cluster of tests consists of, as values and as the variables that `lab/cluster.sh` reads."""

import sys
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
LAB = Path(__file__).parent / "lab" / "cluster.sh"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True)
class LabNode:
    """A compute node: its name in Slurm, its GPUs, and what it calls itself."""

    name: str
    gpus: int = 8
    hostname: str | None = None

    @property
    def word(self) -> str:
        """As `lab/cluster.sh` reads it."""
        return ":".join(filter(None, (self.name, str(self.gpus), self.hostname)))


@dataclass(frozen=True, kw_only=True)
class LabOptions:
    """What is different from one cluster to another. `extra` are lines of slurm.conf."""

    nodes: tuple[LabNode, ...]
    accounting: bool = True
    cgroup: bool = False
    extra: tuple[str, ...] = ()


def lab_environment(folder: Path, options: LabOptions) -> dict[str, str]:
    """What `lab/cluster.sh` reads."""
    ways = (folder, PROJECT, Path(sys.prefix), Path(sys.base_prefix))
    return {
        "PATH": PATH,
        "LAB_DIR": str(folder),
        "LAB_NODES": " ".join(node.word for node in options.nodes),
        "LAB_ACCOUNTING": str(int(options.accounting)),
        "LAB_CGROUP": str(int(options.cgroup)),
        "LAB_EXTRA": "\n".join(options.extra),
        "LAB_OPEN": ":".join(map(str, dict.fromkeys(ways))),
    }
