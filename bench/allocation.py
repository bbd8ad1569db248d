"""What one allocation costs around the models, ours and the peer's: ``python -m bench.allocation``. Needs root.

A test cluster of two nodes runs the same run with both: servers that answer at once, 8 records of one column of text,
real Data Designer. Wall time is that of the batch script; CPU is that of everything on the nodes, Slurm's daemons too.
The nodes have no containers: the peer's ``srun`` is one that leaves the container's options out and puts its scratch
folder where the container would show it.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.marks import read_marks
from bench.node_meter import metered, watch_batch
from bench.peer import add_peer_option, find_peer
from tests.slurm.cluster import USERS, Cluster
from tests.slurm.options import PATH, PROJECT, LabNode, LabOptions
from tests.slurm.running import running_cluster

NODES = ("c1", "c2")
GPUS = 8
RECORDS = 8
HERE = Path(__file__).parent
_SERVER = """#!/bin/sh
exec {python} -I -S {script} --marks {marks} "$@"
"""
_SRUN = """#!/bin/bash
# srun without containers: the task finds the peer's scratch folder where the container would show it.
words=() contained=
for word; do
  case $word in
    --container-image=*) contained=1 ;;
    --container-*) ;;
    --) words+=(--)
        [ -z "$contained" ] || words+=(/bin/sh -c 'ln -sfn "$DD_SCRATCH_ROOT" {local}/scratch; exec "$@"' sh)
        contained= ;;
    *) words+=("$word") ;;
  esac
done
exec /usr/bin/srun "${{words[@]}}"
"""
_SBATCH = """#!/bin/bash
# Every node needs a temporary folder of its own.
exec /usr/bin/sbatch "${{@/#--export=/--export=TMPDIR={local},}}"
"""


_PYTHON = """#!/bin/sh
# An image of vLLM has a Python with the packages that the peer's node worker imports.
exec {peer} "$@"
"""


class Cost(NamedTuple):
    """Of one allocation. Times count from the first line of the batch script."""

    wall_s: float
    cpu_s: float
    launched_s: float
    client_s: float
    pythons: int
    sruns: int
    jqs: int
    programs: int


class Submitted(NamedTuple):
    """A job, and how to see afterwards that it did its work."""

    job: str
    check: Callable[[], None]


def authored(model: Path, server: Mapping[str, Any]) -> dict[str, Any]:
    """The run file, which both understand."""
    column = {"name": "text", "column_type": "llm-text", "model_alias": "m", "prompt": "Say something."}
    known = {"alias": "m", "model": "m", "provider": "local"}
    quick = {"type": "vllm", "lead_boot_standoff": "0s", "rank_launch_stagger": "0s"}
    return {
        "schema_version": 1,
        "name": "bench",
        "builder": {"inline": {"data_designer": {"model_configs": [known], "columns": [column]}}},
        "invocation": {"num_records": RECORDS, "dataset_name": "bench"},
        "client": {"cpus": 8},
        "deployments": [
            {
                "model_alias": "m",
                "model": str(model),
                "served_model_name": "m",
                "server": {**quick, **server},
                "resources": {"nodes": len(NODES)},
                "topology": {"tensor_parallel": GPUS},
            }
        ],
        "submission": {"time_limit": "00:10:00"},
    }


class Site:
    """Folders on the cluster for one allocation."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder_for("bench")
        self.marks = self.folder / "marks"
        self.model, self.workspace = self.make("model"), self.make("workspace")
        self.server = self.executable("vllm", _SERVER, script=HERE / "instant_server.py", marks=self.marks)

    def make(self, name: str) -> Path:
        """A folder of the cluster's user."""
        path = self.folder / name
        path.mkdir(mode=0o700)
        os.chown(path, *[USERS[self.cluster.user]] * 2)
        return path

    def executable(self, name: str, text: str, **values: object) -> Path:
        """A small script."""
        path = self.folder / name
        path.write_text(text.format(python=sys.executable, local=self.cluster.local, **values))
        path.chmod(0o755)
        return path

    def write(self, name: str, value: object) -> Path:
        """A JSON file."""
        path = self.folder / name
        path.write_text(json.dumps(value))
        path.chmod(0o644)
        return path

    def marked(self, what: str) -> list[int]:
        """When the servers wrote this down."""
        return sorted(mark.at_ns for mark in read_marks(self.marks) if mark.what == what)


def submit_ours(site: Site) -> Submitted:
    """`dd-slurm submit`."""
    profile = {"schema_version": 1, "workspace_root": str(site.workspace), "gpus_per_node": GPUS, "container": "none"}
    catalog = site.write("profiles.json", {"schema_version": 1, "clusters": {"lab": profile}})
    run = site.write("run.json", authored(site.model, {"executable": str(site.server)}))
    argv = (sys.executable, "-m", "shell.cli", "submit", str(run), "--profile-file", str(catalog), "--json")
    said = json.loads(site.cluster.run(argv, env={"PYTHONPATH": str(PROJECT)}, cwd=site.folder).stdout)

    def check() -> None:
        winner = Path(said["run_dir"], "shards", "00000", "winner.json")
        result = Path(said["run_dir"], json.loads(winner.read_text())["result"])
        if json.loads(result.read_text())["records"] != RECORDS:
            raise ValueError(f"not {RECORDS} records: {result}")

    return Submitted(str(said["job_id"]), check)


def submit_peer(site: Site, python: str) -> Submitted:
    """The peer's own submission."""
    tools = site.make("tools")
    for name, text in (("srun", _SRUN), ("sbatch", _SBATCH), ("python3", _PYTHON)):
        site.executable(name, text, peer=python).rename(tools / name)
    (tools / "scontrol").symlink_to("/usr/bin/scontrol")
    for node in NODES:
        shown = ("ln", "-sfn", f"{site.cluster.local}/scratch", "/run/data-designer-slurm")
        site.cluster.run(shown, node=node, user="root")
        site.cluster.run(("chmod", "1777", str(site.cluster.local)), node=node, user="root")
    build = {"partition": "batch", "cpus_per_task": 1, "memory": "1G", "time_limit": "1:00:00"}
    profile = {
        "schema_version": 1,
        "workspace_root": str(site.workspace),
        "gpus_per_node": GPUS,
        "image_build": build,
        "scheduler": {"bin_path": str(tools)},
        "container_mounts": [{"source": str(site.folder), "target": str(site.folder)}],
    }
    run = authored(site.model, {"image": {"name": "server"}})
    asked = site.write("request.json", {"run": run, "profile": profile, "executable": str(site.server)})
    argv = (python, str(HERE / "peer_allocation.py"), str(asked))
    said = json.loads(site.cluster.run(argv, env={"PATH": f"{tools}:{PATH}"}, cwd=site.folder).stdout)

    def check() -> None:
        attempt = Path(said["run"], "shards", "shard-00000", "attempts", "attempt-0001", "attempt.json")
        state = json.loads(attempt.read_text())["state"]
        if state != "succeeded":
            raise ValueError(f"the peer's attempt is {state}: {attempt}")

    return Submitted(str(said["job"]), check)


def await_free_ports(cluster: Cluster) -> None:
    """Until no connection of an earlier run remains: for that minute the peer takes its fixed ports for taken."""
    deadline = time.monotonic() + 90
    while any(_remains(cluster.init(node)) for node in NODES) and time.monotonic() < deadline:
        time.sleep(1)


def _remains(process: int) -> list[str]:
    """Connections in TIME_WAIT of the network that a process is in."""
    lines = Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[3] == "06"]


def measure(cluster: Cluster, submit: Callable[[Site], Submitted]) -> Cost:
    """One allocation."""
    site = Site(cluster)
    with metered(cluster, NODES) as meter:
        cpu_before, programs_before = meter.cpu_s(), meter.programs()
        submitted = submit(site)
        batch = watch_batch(cluster, NODES[0])
        wall_ns = batch.ended_ns() - batch.begun_ns
        state = cluster.wait(submitted.job, timeout_s=60)
        if state != "COMPLETED":
            said = "\n".join(path.read_text() for path in site.workspace.rglob("*.err"))
            raise ValueError(f"job {submitted.job} is {state}: {said}")
        cluster.wait_idle()
        submitted.check()
        programs = meter.programs() - programs_before
        return _cost(site, batch.begun_ns, wall_ns, meter.cpu_s() - cpu_before, programs)


def _cost(site: Site, begun_ns: int, wall_ns: int, cpu_s: float, programs: Mapping[str, int]) -> Cost:
    launched, chats = site.marked("launched"), site.marked("chat")
    if len(launched) != len(NODES):
        raise ValueError(f"{len(launched)} servers on {len(NODES)} nodes")
    return Cost(
        wall_s=wall_ns / 1e9,
        cpu_s=cpu_s,
        launched_s=(launched[-1] - begun_ns) / 1e9,
        client_s=(chats[0] - begun_ns) / 1e9,
        pythons=sum(count for name, count in programs.items() if name.startswith("python")),
        sruns=programs["srun"],
        jqs=programs["jq"],
        programs=sum(programs.values()),
    )


def median(costs: Sequence[Cost]) -> Cost:
    """Of every figure for itself."""
    return Cost(*(statistics.median(figures) for figures in zip(*costs, strict=True)))


def table(ours: Cost, peer: Cost | None) -> str:
    """One line per figure; the last column says how many times less ours is."""
    rows = {
        "wall, s": "wall_s",
        "CPU, s": "cpu_s",
        "until servers run on all nodes, s": "launched_s",
        "until the client's first request, s": "client_s",
        "Python starts": "pythons",
        "srun": "sruns",
        "jq": "jqs",
        "programs started": "programs",
    }
    lines = ["| | ours | peer | times less |", "|---|--:|--:|--:|"]
    for words, name in rows.items():
        mine = getattr(ours, name)
        theirs = None if peer is None else getattr(peer, name)
        ratio = "" if theirs is None or not mine else f"{theirs / mine:.1f}"
        lines.append(f"| {words} | {_figure(mine)} | {_figure(theirs)} | {ratio} |")
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value == round(value) else f"{value:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.allocation", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    add_peer_option(parser)
    options = parser.parse_args(arguments)
    peer = find_peer(options.peer)
    ours: list[Cost] = []
    theirs: list[Cost] = []
    with running_cluster(LabOptions(nodes=tuple(LabNode(name=name, gpus=GPUS) for name in NODES))) as cluster:
        for _ in range(options.repetitions):
            ours.append(measure(cluster, submit_ours))
            if peer:
                await_free_ports(cluster)
                theirs.append(measure(cluster, lambda site: submit_peer(site, peer)))
    print(table(median(ours), median(theirs) if theirs else None))


if __name__ == "__main__":
    main()
