"""Steps of ours on a real cluster: started side by side from a job, as the controller would, and what tasks saw."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from core.problem import At
from core.slurm.srun import StepRequest, serve_srun
from core.slurm.versions import SlurmVersion, parse_slurm_version
from core.units import NodeName, StepName
from tests.slurm.cluster import Cluster
from tests.slurm.options import PROJECT

_MEET = """#!/bin/sh
# meet.sh FOLDER STEP ALL: what the environment of this task is, once ALL tasks of all steps run at the same time.
: >"$1/$2@$SLURMD_NODENAME.here"
tries=0
while [ "$(ls "$1" | grep -c 'here$')" -lt "$3" ]; do
  tries=$((tries + 1)); [ $tries -lt 400 ] || exit 9
  sleep 0.05
done
env -0 >"$1/$2@$SLURMD_NODENAME.env"
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one ``srun`` ended."""

    code: int
    said: str


@dataclass(frozen=True, kw_only=True)
class Met:
    """What became of the steps: their ends, and the environment of every task by step and node."""

    ends: Mapping[str, Ended]
    seen: Mapping[tuple[str, str], Mapping[str, str]]


def step(name: str, nodes: Sequence[str], gpus: int | None, cpus: int | None = 4) -> StepRequest:
    """A step whose tasks wait for all others; `meet` gives it its command."""
    return StepRequest(
        name=StepName(name),
        nodes=tuple(map(NodeName, nodes)),
        command=(),
        host_list_file="/nonexistent",
        gpus_per_node=gpus,
        cpus_per_task=cpus,
    )


def meet(
    cluster: Cluster,
    steps: Sequence[StepRequest],
    *options: str,
    prefix: str = "",
    scrub: bool = True,
) -> Met:
    """Runs all steps at once in one job, started through `prefix`, and tells how they ended."""
    folder = cluster.folder_for("steps")
    script = folder / "meet.sh"
    script.write_text(_MEET)
    count = str(sum(len(one.nodes) for one in steps))
    meeting = {one.name: ("sh", str(script), str(folder), one.name, count) for one in steps}
    version = slurm_version(cluster)
    commands = {one.name: serve_srun(replace(one, command=meeting[one.name]), version).argv for one in steps}
    (folder / "commands.json").write_text(json.dumps(commands))
    words = [sys.executable, "-m", "tests.slurm.start_side_by_side", str(folder), *([] if scrub else ["--unscrubbed"])]
    cluster.run_job(f"cd {PROJECT}\n{prefix} {' '.join(words)}", *options, timeout_s=120)
    ends = {name: Ended(**end) for name, end in json.loads((folder / "ends.json").read_text()).items()}
    return Met(ends=ends, seen={_who(path): variables(path) for path in folder.glob("*.env")})


def slurm_version(cluster: Cluster) -> SlurmVersion:
    """The release that is installed here."""
    return parse_slurm_version(cluster.run(("srun", "--version")).stdout, At(source="srun --version")).unwrap()


def variables(path: Path) -> dict[str, str]:
    """What ``env -0`` wrote."""
    return dict(word.split("=", 1) for word in path.read_text().split("\0") if "=" in word)


def _who(path: Path) -> tuple[str, str]:
    step, _, node = path.name.removesuffix(".env").partition("@")
    return step, node
