"""A run that commands are given: its folder, its record, its plan and the cluster that it was planned for."""

import os
from typing import NamedTuple

import msgspec
from returns.result import Success

from core.layout import RunPaths
from core.outcome import Outcome, refuse, unless
from core.plan.model import RunPlan
from core.problem import At, Unreadable
from shell.scheduler import Scheduler
from shell.submission.checks import command_problems
from shell.submission.runs import RunRecord, read_run
from shell.submission.submit import is_run_folder


class Opened(NamedTuple):
    """All that commands on a run begin with."""

    run: RunPaths
    record: RunRecord
    plan: RunPlan
    scheduler: Scheduler


def open_run(folder: str) -> Outcome[Opened]:
    """Errors: those of `open_files`, and `CommandMissing` for commands of Slurm."""
    return open_files(folder).bind(
        lambda opened: unless(command_problems(opened.plan, opened.scheduler), opened),
    )


def open_files(folder: str) -> Outcome[Opened]:
    """Where Slurm is not needed. Errors: `Unreadable` for what is no run or of another version."""
    root = os.path.abspath(folder)
    if not is_run_folder(root):
        reason = "this folder is no run: there is no run.json and plan.json that you may read"
        return refuse(Unreadable(at=At(source=root), reason=reason))
    try:
        record, plan = read_run(root)
    except (OSError, msgspec.MsgspecError) as error:
        return refuse(unreadable(root, error))
    return Success(Opened(RunPaths(root=root), record, plan, Scheduler(plan.site.slurm_bin)))


def unreadable(root: str, error: Exception) -> Unreadable:
    """A file of the run that says something else than this version writes."""
    if isinstance(error, OSError):
        return Unreadable(at=At(source=error.filename or root), reason=error.strerror or str(error))
    return Unreadable(at=At(source=root), reason=f"made by another version of dd-slurm? {error}")
