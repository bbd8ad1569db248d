"""Job steps without Slurm: a node worker per simulated node, as child processes of this machine.

Every simulated node has a loopback address, a SLURM_* environment and a folder of its own. What `srun` does is done the
same way: a task that ends badly ends the others (TERM, later KILL), and the step's code is the highest of its tasks.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.layout import facts_log, worker_log
from core.plan.bound import BoundPlan
from core.plan.process_env import join_path
from core.plan.steps import Step
from core.supervise.effects import Signal
from core.units import NodeName, StepName
from shell.launch.launcher import ExitListener
from shell.launch.local_step import LocalStep
from shell.launch.processes import Reaper
from shell.store import make_folder

KILL_WAIT_S = 30.0
"""Slurm's KillWait: from TERM to KILL of a step that a bad task ended."""
_EXIT_NOT_STARTED = 127


class LocalNode(NamedTuple):
    """A simulated node. `folder` holds what a real node would have on its own disk."""

    name: NodeName
    address: str
    devices: int
    folder: str


class LocalJob(NamedTuple):
    """The allocation that is played. `bundle` is the folder that our packages are imported from."""

    job_id: str
    nodes: tuple[LocalNode, ...]
    tasks: str
    logs: str
    bundle: str


def local_nodes(names: Sequence[NodeName], devices: Sequence[int], folder: str) -> tuple[LocalNode, ...]:
    """Nodes at 127.0.1.1, 127.0.1.2 and so on, each with a folder below `folder`."""
    return tuple(
        LocalNode(name, f"127.0.{1 + index // 254}.{1 + index % 254}", count, f"{folder}/{name}")
        for index, (name, count) in enumerate(zip(names, devices, strict=True))
    )


class LocalLauncher:
    """Carries steps as processes of this machine."""

    def __init__(
        self,
        job: LocalJob,
        reaper: Reaper,
        listener: ExitListener,
        environ: Mapping[str, str],
        kill_wait_s: float = KILL_WAIT_S,
    ) -> None:
        self._job = job
        self._reaper = reaper
        self._listener = listener
        self._environ = {name: value for name, value in environ.items() if not name.startswith("SLURM")}
        self._kill_wait_s = kill_wait_s
        self._steps: dict[tuple[str, int], LocalStep] = {}
        self._facts: list[LocalStep] = []
        self._next_step_id = 0
        make_folder(job.tasks)
        make_folder(job.logs)

    def facts(self, request_path: str, nodes: Sequence[NodeName], image: str | None) -> None:
        """See `Launcher`. Nothing is played of images."""
        chosen = [node for node in self._job.nodes if node.name in set(nodes)]
        names = [node.name for node in chosen]
        step = LocalStep(names, self._kill_wait_s, _no_task, self._listener.on_facts_exit, kill_on_bad_exit=False)
        self._facts.append(step)
        for node, environ in zip(chosen, self._environments(chosen), strict=True):
            options = ("--request", request_path, "--address", node.address, "--devices", str(node.devices))
            self._start(step, node, ("facts", *options), environ, facts_log(self._job.logs, node.name))

    def stop_facts(self) -> None:
        """See `Launcher`."""
        for step in self._facts:
            step.signal("TERM")

    def serve(self, step: Step, launch: int, plan: BoundPlan, plan_path: str) -> None:
        """See `Launcher`."""
        names = {plan.nodes[slot].name for slot in step.slots}
        chosen = [node for node in self._job.nodes if node.name in names]
        running = LocalStep(
            [node.name for node in chosen],
            self._kill_wait_s,
            lambda node, code: self._listener.on_task_exit(step.name, launch, node, code),
            lambda code: self._listener.on_step_exit(step.name, launch, code),
            kill_on_bad_exit=True,
        )
        self._steps[step.name, launch] = running
        options = ("--plan", plan_path, "--step", step.name, "--launch", str(launch))
        places = ("--tasks-dir", self._job.tasks, "--log-dir", self._job.logs)
        for node, environ in zip(chosen, self._environments(chosen), strict=True):
            log = worker_log(self._job.logs, step.name, launch, node.name)
            self._start(running, node, ("serve", *options, *places), environ, log)

    def signal(self, step: StepName, launch: int, signal: Signal) -> None:
        """See `Launcher`."""
        running = self._steps.get((step, launch))
        if running is not None:
            running.signal(signal)

    def _start(
        self, step: LocalStep, node: LocalNode, words: tuple[str, ...], environ: Mapping[str, str], log: str
    ) -> None:
        argv = (sys.executable, "-m", "shell.node", *words, "--starter", str(os.getpid()))
        try:
            child = self._reaper.spawn(argv, environ, log, on_exit=lambda code: step.ended(node.name, code))
        except OSError:
            step.ended(node.name, _EXIT_NOT_STARTED)
        else:
            step.started(node.name, child)

    def _environments(self, chosen: Sequence[LocalNode]) -> list[dict[str, str]]:
        """What Slurm gives to each task of a step on these nodes."""
        step_id, self._next_step_id = self._next_step_id, self._next_step_id + 1
        step_nodes = ",".join(node.name for node in chosen)
        return [
            self._common() | _task_variables(node, index, len(chosen), step_nodes, step_id)
            for index, node in enumerate(chosen)
        ]

    def _common(self) -> dict[str, str]:
        nodes = ",".join(node.name for node in self._job.nodes)
        return self._environ | {
            "PYTHONPATH": join_path(self._job.bundle, self._environ.get("PYTHONPATH", "")),
            "SLURM_JOB_ID": self._job.job_id,
            "SLURM_JOBID": self._job.job_id,
            "SLURM_JOB_NODELIST": nodes,
            "SLURM_NODELIST": nodes,
            "SLURM_JOB_NUM_NODES": str(len(self._job.nodes)),
            "SLURM_CLUSTER_NAME": "local",
        }


def _no_task(node: NodeName, code: int) -> None:
    """Facts are judged together, when all nodes have answered."""


def _task_variables(node: LocalNode, index: int, count: int, step_nodes: str, step_id: int) -> dict[str, str]:
    temporary = f"{node.folder}/tmp"
    make_folder(temporary)
    return {
        "TMPDIR": temporary,
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(node.devices))),
        "SLURMD_NODENAME": node.name,
        "SLURM_PROCID": str(index),
        "SLURM_NODEID": str(index),
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": str(count),
        "SLURM_NNODES": str(count),
        "SLURM_STEP_ID": str(step_id),
        "SLURM_STEPID": str(step_id),
        "SLURM_STEP_NODELIST": step_nodes,
        "SLURM_STEP_NUM_NODES": str(count),
        "SLURM_STEP_NUM_TASKS": str(count),
    }
