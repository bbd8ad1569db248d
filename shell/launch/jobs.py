"""The job that an attempt runs in: simulated on this machine, or an allocation of Slurm."""

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from returns.pipeline import is_successful
from returns.result import Success

from core.layout import AttemptPaths
from core.outcome import Outcome, problems_of, refuse, unless
from core.plan.contained import needs_pyxis, pyxis_problems
from core.plan.job_steps import StepSite
from core.plan.model import RunPlan
from core.plan.sharing import sharing_problems
from core.plan.topology import gpus_on_slots
from core.problem import At, CommandFailed
from core.report import counted
from core.slurm.allocation import Allocation, parse_allocation
from core.slurm.environ import step_environment
from core.slurm.hostnames import compress_hostlist
from core.supervise.rules import PROBE_EVERY_MS
from core.units import NodeName
from shell.launch.launcher import ExitListener, Launcher
from shell.launch.processes import Reaper
from shell.submission.runs import RunRecord

LOCAL_PROBE_MS = 100
COMMAND_TIMEOUT_S = 30.0

MakeLauncher: TypeAlias = Callable[[AttemptPaths, Reaper, ExitListener, Mapping[str, str]], Launcher]


class Job(NamedTuple):
    """Where an attempt runs. `words` name the nodes for people; the last argument of `launcher` is the environment."""

    job_id: str
    hosts: tuple[NodeName, ...]
    words: str
    probe_every_ms: int
    in_slurm: bool
    launcher: MakeLauncher


def local_job(record: RunRecord, plan: RunPlan, scratch: str) -> Job:
    """Nodes that are played by this machine; `scratch` is for what they keep on their disks."""
    from shell.launch.local import LocalJob, LocalLauncher, local_nodes

    job_id = os.environ.get("SLURM_JOB_ID") or str(os.getpid())
    hosts = tuple(NodeName(f"sim{index + 1:02d}") for index in range(plan.request.nodes))
    nodes = local_nodes(hosts, gpus_on_slots([d.placement for d in plan.deployments]), scratch)

    def launcher(paths: AttemptPaths, reaper: Reaper, listener: ExitListener, environ: Mapping[str, str]) -> Launcher:
        job = LocalJob(job_id, nodes, tasks=paths.tasks, logs=paths.logs, bundle=record.bundle)
        return LocalLauncher(job, reaper, listener, environ)

    return Job(job_id, hosts, counted(len(hosts), "simulated node"), LOCAL_PROBE_MS, False, launcher)


def slurm_job(root: str, record: RunRecord, plan: RunPlan) -> Outcome[Job]:
    """The allocation that this process stands in.

    Errors: those of `parse_allocation`; `CommandFailed` and `VersionUnfit` for ``srun``; `PyxisMissing`.
    """
    names = _ask(plan, "scontrol", "show", "hostnames", os.environ.get("SLURM_JOB_NODELIST", ""))
    said = _ask(plan, "srun", "--version")
    # A list of hosts can be expanded without `scontrol`; it is asked because it knows every syntax of its release.
    hostnames = names.unwrap() if is_successful(names) else None
    if not is_successful(said):
        return refuse(*problems_of(parse_allocation(os.environ, hostnames)), *said.failure())
    options = _ask(plan, "srun", "--help") if needs_pyxis(plan) else Success("")
    lacking = tuple(pyxis_problems(plan, options.unwrap())) if is_successful(options) else ()
    if lacking:
        return refuse(*lacking)
    granted = parse_allocation(os.environ, hostnames, version_output=said.unwrap())
    return granted.bind(lambda allocation: unless(sharing_problems(plan, allocation.slurm_version), allocation)).map(
        lambda allocation: _job_of(root, record, plan, allocation)
    )


def _job_of(root: str, record: RunRecord, plan: RunPlan, allocation: Allocation) -> Job:
    hosts = allocation.hosts[: plan.request.nodes]
    rehearsed = max(gpus_on_slots([d.placement for d in plan.deployments])) if record.rehearsal else None

    def launcher(paths: AttemptPaths, reaper: Reaper, listener: ExitListener, environ: Mapping[str, str]) -> Launcher:
        from shell.launch.srun import SrunLauncher

        site = StepSite(
            job_id=allocation.job_id,
            plan=plan,
            bundle=record.bundle,
            python=record.python,
            run_root=root,
            attempt=paths,
            gpus_per_node=plan.request.gpus_per_node if rehearsed is None else 0,
            rehearsed_devices=rehearsed,
        )
        return SrunLauncher(site, allocation.slurm_version, reaper, listener, environ)

    listed = compress_hostlist(hosts)
    return Job(allocation.job_id, hosts, f"{listed} of job {allocation.job_id}", PROBE_EVERY_MS, True, launcher)


def _ask(plan: RunPlan, name: str, *words: str) -> Outcome[str]:
    """What a command of Slurm prints. Neither of those used here needs the controller daemon."""
    path = f"{plan.site.slurm_bin}/{name}" if plan.site.slurm_bin else name
    shown = " ".join((path, *words))
    try:
        done = subprocess.run(
            (path, *words), env=step_environment(os.environ), capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "no answer in time"
        return refuse(CommandFailed(at=At(source="the allocation"), command=shown, reason=reason))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return refuse(CommandFailed(at=At(source="the allocation"), command=shown, reason=last))
    return Success(done.stdout)
