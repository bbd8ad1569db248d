"""A run that is submitted to the cluster as people do, with the stand-in for vLLM, and watched through its files."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from core.supervise.verdict import Verdict
from shell.worker.descendants import signal_all
from tests.local.local_run import PROGRAM, REPOSITORY, until
from tests.slurm.cluster import USERS, Cluster

RESTART = {"on_failure": {"policy": "restart", "max_restarts": 3, "backoff": "1s"}}
TWO_NODES = {"resources": {"nodes": 2}, "topology": {"tensor_parallel": 8, "nodes_per_replica": 2}}
SRUN = "srun --job-name="
"""Its command line holds that of the workers that it starts."""
_VLLM = """#!/bin/sh
exec {python} -m shell.simulate "$@"
"""


class SlurmRun:
    """One run file with one model, of which tests say what is different, and the jobs that came of it."""

    def __init__(
        self,
        cluster: Cluster,
        deployment: Mapping[str, Any],
        gpus_per_node: int = 8,
        profile: Mapping[str, Any] = {},
        **top: Any,
    ) -> None:
        self.cluster = cluster
        self.folder = cluster.folder_for("run")
        self.gate = self._make("gate")
        self.commands = self._make("commands")
        self.model = self._make("model")
        self.vllm = self.folder / "vllm"
        self.vllm.write_text(_VLLM.format(python=sys.executable))
        self.vllm.chmod(0o755)
        site = {"schema_version": 1, "workspace_root": str(self._make("workspace")), "gpus_per_node": gpus_per_node}
        catalog = {"schema_version": 1, "clusters": {"lab": site | {"container": "none"} | dict(profile)}}
        (self.folder / "profiles.json").write_text(json.dumps(catalog))
        authored = self._authored(deployment) | top
        self.run_file = self.folder / "run.json"
        self.run_file.write_text(json.dumps({name: value for name, value in authored.items() if value is not None}))

    def _make(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir()
        os.chown(path, *[USERS[self.cluster.user]] * 2)
        return path

    def _authored(self, deployment: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(deployment)
        quick = {"lead_boot_standoff": 0, "rank_launch_stagger": 0, "executable": str(self.vllm)}
        one = {"model_alias": "m", "model": str(self.model), "served_model_name": "m"}
        one["server"] = quick | given.pop("server", {})
        return {
            "schema_version": 1,
            "name": "real",
            "client": {"command": [sys.executable, "-S", "-E", str(PROGRAM)], "cpus": 4},
            "invocation": {"num_records": 4},
            "deployments": [one | given],
            "submission": {"time_limit": "00:10:00"},
        }

    def submit(self, simulate: Mapping[str, Any] | None = None, gated: bool = True, **environ: str) -> "SlurmJob":
        """`dd-slurm submit`, by the cluster's user. With a gate the program waits after its first record."""
        gate = {"LOCAL_TEST_GATE": str(self.gate)} if gated else {}
        settings = gate | {
            "DD_SLURM_SIMULATE": json.dumps(simulate or {}),
            "DD_SLURM_SIMULATE_CONTROL": str(self.commands),
            "PYTHONPATH": str(REPOSITORY),
            **environ,
        }
        words = ("submit", str(self.run_file), "--profile-file", str(self.folder / "profiles.json"), "--json")
        said = self.cluster.run((sys.executable, "-m", "shell.cli", *words), env=settings, cwd=self.folder)
        return SlurmJob(self, json.loads(said.stdout))

    def submit_script(self, line: str, *options: str, gated: bool = True) -> "SlurmJob":
        """A run folder that `dd-slurm submit` has made, in a job that runs `line` instead of our batch script."""
        made = self.submit(gated=gated)
        self.cluster.scancel(made.id)
        self.cluster.wait_idle()
        shutil.rmtree(made.root / "shards", ignore_errors=True)
        (bundle,) = made.root.glob("bundle-*.zip")
        command = f"{sys.executable} -P -m shell.run --run-dir {made.root} --shard-from-env"
        script = f"export PYTHONPATH={bundle}\n{line.format(command=command)}\n"
        usual = ("--nodes=2", "--ntasks-per-node=1", "--gres=gpu:8", "--cpus-per-task=4", "--time=10")
        log = f"--output={made.logs}/by-hand.out"
        job = self.cluster.submit(script, *usual, *options, log)
        return SlurmJob(self, {"job_id": job, "run_dir": str(made.root), "logs": str(made.logs)})

    def open_gate(self) -> None:
        """Let the program go on."""
        (self.gate / "open").touch()

    def wait_working(self, job: "SlurmJob") -> None:
        """Until the program has got its first record."""
        until(lambda: (self.gate / "working").exists(), f"the program to work; {job.log()}")


class SlurmJob:
    """A submitted job."""

    def __init__(self, run: SlurmRun, said: Mapping[str, Any]) -> None:
        self.run, self.cluster = run, run.cluster
        self.id = str(said["job_id"])
        self.root = Path(said["run_dir"])
        self.logs = Path(said["logs"])

    def attempt(self, number: int = 1, shard: int = 0) -> Path:
        return self.root / "shards" / f"{shard:05d}" / "attempts" / f"{number:04d}"

    def record(self, number: int = 1, shard: int = 0) -> dict[str, Any]:
        """`attempt.json`."""
        return dict(json.loads((self.attempt(number, shard) / "attempt.json").read_text()))

    def verdict(self, number: int = 1, shard: int = 0) -> Verdict:
        verdict: Verdict = msgspec.convert(self.record(number, shard)["cause"], type=Verdict)
        return verdict

    def story(self, number: int = 1, shard: int = 0) -> str:
        return "\n".join(self.record(number, shard)["story"])

    def log(self) -> str:
        """All that the batch scripts have printed."""
        return "\n".join(path.read_text() for path in sorted(self.logs.glob("*.out")))

    def rows(self, shards: Sequence[int] = (0,)) -> list[int]:
        """The numbers of the records of the winners."""
        found: list[int] = []
        for shard in shards:
            winner = json.loads((self.root / "shards" / f"{shard:05d}" / "winner.json").read_text())
            result = self.root / winner["result"]
            for file in json.loads(result.read_text())["files"]:
                lines = (result.parent / "output" / file["path"]).read_text().splitlines()
                found.extend(json.loads(line)["number"] for line in lines)
        return found

    def ended(self, timeout_s: float = 120) -> str:
        """The state of the job at its end, with nothing of it left on any node."""
        state = self.cluster.wait(self.id, timeout_s=timeout_s)
        self.cluster.wait_idle(timeout_s=timeout_s)
        return state

    def ended_alone(self, timeout_s: float = 120) -> str:
        """The state of the job at its end, while others may run."""
        return self.cluster.wait(self.id, timeout_s=timeout_s)

    def pids(self, node: str, words: str) -> list[int]:
        """Processes of the job on a node whose command line holds these words, oldest first, as this machine counts."""
        found = sorted(self.cluster.job_processes(node), key=_age)
        return [
            one.pid
            for one in found
            if words in one.command and (words.startswith(SRUN) or not one.command.startswith(SRUN))
        ]

    def kill(self, node: str, words: str, which: int = 0, number: int = signal.SIGKILL) -> None:
        """Signal one of them."""
        until(lambda: len(self.pids(node, words)) > which, f"{words} on {node}; {self.log()}")
        signal_all([self.pids(node, words)[which]], number)

    def lane_pids(self, node: str, launch: int = 1) -> list[int]:
        """Server processes on a node, as the node counts."""
        record = self.attempt() / "tasks" / f"m-0.{launch}.{node}.started.json"
        until(record.exists, str(record))
        return [int(lane["pid"]) for lane in json.loads(record.read_text())["lanes"]]

    def command(self, told: Mapping[str, Any], replica: int = 0, launch: int = 1) -> None:
        """Tell the living processes of a replica what to do wrong."""
        (self.run.commands / f"{self.root.name}.0.1.m-{replica}.{launch}").write_text(json.dumps(told))

    def kill_lane(self, node: str, number: int = signal.SIGKILL) -> None:
        """Signal the first server process on a node."""
        self.cluster.run(("kill", f"-{number}", str(self.lane_pids(node)[0])), node=node, user="root")


def _age(process: Any) -> int:
    return int(process.pid)
