"""What can be known to be wrong before anything is submitted, or written: all of it together."""

import os
import sys
from collections.abc import Iterator, Mapping

from returns.pipeline import is_successful

from core.layout import run_paths
from core.outcome import problems_of
from core.plan.contained import needs_pyxis, pyxis_problems
from core.plan.model import RunPlan
from core.problem import At, CommandMissing, PathUnusable, Problem, Unreadable
from core.submit.secrets import unset_secrets
from shell.authored.authoring import Authored
from shell.scheduler import Scheduler
from shell.store import make_folder
from shell.submission.runs import RunRecord
from shell.submission.submissions import render


def submission_problems(authored: Authored, scheduler: Scheduler, environ: Mapping[str, str]) -> Iterator[Problem]:
    """Everything that speaks against submitting this plan here."""
    plan = authored.plan
    if authored.profile_file is None:
        reason = "no catalog of cluster profiles was found; name it with --profile-file"
        yield Unreadable(at=At(source="profile"), reason=reason)
        return
    yield from command_problems(plan, scheduler)
    yield from _plugin_problems(plan, scheduler)
    yield from unset_secrets(plan, environ)
    yield from _script_problems(plan)
    yield from _workspace_problems(plan)


def command_problems(plan: RunPlan, scheduler: Scheduler) -> Iterator[Problem]:
    """Commands of Slurm that are not there."""
    at = At(source=f"cluster {plan.site.cluster}", path="scheduler.bin_path")
    for command in scheduler.missing():
        yield CommandMissing(at=at, command=command, folder=plan.site.slurm_bin)


def _plugin_problems(plan: RunPlan, scheduler: Scheduler) -> Iterator[Problem]:
    """Looked at in the job again: the host of submission may have other plug-ins than the nodes, or no srun at all."""
    options = scheduler.srun_help() if needs_pyxis(plan) else None
    if options is not None:
        yield from pyxis_problems(plan, options)


def _script_problems(plan: RunPlan) -> Iterator[Problem]:
    """The batch script, with a name in place of the real one, which comes later and has the same form."""
    run = run_paths(plan.site.workspace_root, plan.name)
    record = RunRecord(
        run_id=plan.name,
        run_file="",
        base_folder="",
        profile_file=None,
        user="",
        python=sys.executable,
        bundle=f"{run.root}/bundle.zip",
        rehearsal=None,
    )
    rendered = render(run, record, plan, 1)
    yield from () if is_successful(rendered) else problems_of(rendered)


def _workspace_problems(plan: RunPlan) -> Iterator[Problem]:
    """The folder of all runs is made when it is missing."""
    at = At(source=f"cluster {plan.site.cluster}", path="workspace_root")
    runs = os.path.dirname(run_paths(plan.site.workspace_root, plan.name).root)
    try:
        make_folder(runs)
    except OSError as error:
        yield PathUnusable(at=at, path=error.filename or runs, state=_state(error), wanted="writable directory")
        return
    if not os.access(runs, os.W_OK | os.X_OK):
        yield PathUnusable(at=at, path=runs, state="not writable for you", wanted="writable directory")


def _state(error: OSError) -> str:
    return f"unusable ({error.strerror})"
