"""``dd-slurm submit``: check, make the run folder, submit, and say what happened and what to do next."""

import os
import sys

import msgspec
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.layout import RunPaths
from core.problem import At, Unreadable
from core.submit import state as s
from core.submit.records import Job
from core.submit.words import EX_TEMPFAIL, progress, tell
from shell.authored.authoring import read_and_plan
from shell.commands.answer import refuse
from shell.scheduler import Scheduler
from shell.submission.checks import command_problems, submission_problems
from shell.submission.runs import create_run, read_run
from shell.submission.submit import Submitter, is_run_folder

INTERRUPTED = 130
PATIENCE = s.Patience()


class SubmissionSaid(msgspec.Struct, frozen=True, kw_only=True):
    """What `dd-slurm submit --json` prints. `job_id` is None where no job of this submission may start.

    `doubt` is why the job could not start on the nodes that there are.
    """

    run_dir: str
    submission: int
    state: str
    job_id: str | None
    cluster: str | None
    logs: str
    doubt: str | None
    exit_code: int
    message: str
    next_steps: tuple[str, ...]


def submit(target: str, profile_file: str | None, cluster: str | None, as_json: bool) -> int:
    """`target` is a run file, which makes a new run, or the folder of a run that was begun before."""
    if os.path.isdir(target):
        return _go_on(os.path.abspath(target), as_json)
    planned = read_and_plan(target, profile_file, cluster, None)
    if not is_successful(planned):
        return refuse(planned.failure(), as_json)
    authored = planned.unwrap()
    scheduler = Scheduler(authored.plan.site.slurm_bin)
    problems = tuple(submission_problems(authored, scheduler, os.environ))
    if problems:
        return refuse(problems, as_json)
    created = create_run(authored, None)
    if not is_successful(created):
        return refuse(created.failure(), as_json)
    return _submit(created.unwrap()[1].root, scheduler, as_json)


def _go_on(root: str, as_json: bool) -> int:
    if not is_run_folder(root):
        reason = "this folder is no run: there is no run.json and plan.json that you may read"
        return refuse((Unreadable(at=At(source=root), reason=reason),), as_json)
    try:
        _, plan = read_run(root)
    except (OSError, msgspec.MsgspecError) as error:
        return _unreadable(root, error, as_json)
    scheduler = Scheduler(plan.site.slurm_bin)
    problems = tuple(command_problems(plan, scheduler))
    return refuse(problems, as_json) if problems else _submit(root, scheduler, as_json)


def _submit(root: str, scheduler: Scheduler, as_json: bool) -> int:
    try:
        submitted = Submitter(root, scheduler, PATIENCE, _tell_progress).go_on()
    except KeyboardInterrupt:
        print(f"stopped; whether there is a job is settled by: dd-slurm submit {root}", file=sys.stderr)
        return INTERRUPTED
    except msgspec.MsgspecError as error:
        return _unreadable(root, error, as_json)
    except OSError as error:
        print(f"the run folder cannot be written: {_words(error)}", file=sys.stderr)
        print(f"when it can, dd-slurm submit {root} settles whether there is a job; none has started", file=sys.stderr)
        return EX_TEMPFAIL
    if not is_successful(submitted):
        return refuse(submitted.failure(), as_json)
    said = submission_said(root, scheduler, *submitted.unwrap())
    if as_json:
        sys.stdout.write(canonical_json(said).decode())
    else:
        _print(said)
    return said.exit_code


def submission_said(root: str, scheduler: Scheduler, number: int, end: s.End) -> SubmissionSaid:
    """How submission `number` ended, in words."""
    paths = RunPaths(root=root).submission(number)
    told, job = tell(end, root, paths.logs), _job(end)
    return SubmissionSaid(
        run_dir=root,
        submission=number,
        state=told.state,
        job_id=job.job_id if job else None,
        cluster=job.cluster if job else None,
        logs=paths.logs,
        doubt=scheduler.doubt(paths.batch, root) if isinstance(end, s.Queued) else None,
        exit_code=told.exit_code,
        message=told.message,
        next_steps=told.next_steps,
    )


def _unreadable(root: str, error: Exception, as_json: bool) -> int:
    reason = f"made by another version of dd-slurm? {error}"
    return refuse((Unreadable(at=At(source=root), reason=reason),), as_json)


def _words(error: OSError) -> str:
    return f"{error.filename or 'a file'}: {error.strerror}"


def _job(end: s.End) -> Job | None:
    return end.submitted.job if isinstance(end, s.Queued | s.StillHeld) else None


def _print(said: SubmissionSaid) -> None:
    print(said.message, file=sys.stderr if said.exit_code else sys.stdout)
    print(f"run folder: {said.run_dir}")
    print(f"logs of the job: {said.logs}")
    if said.doubt is not None:
        print(f"warning: as the cluster stands, it can never start: {said.doubt}", file=sys.stderr)
    print("next:")
    for line in said.next_steps:
        print(f"  {line}")


def _tell_progress(state: s.State) -> None:
    line = progress(state)
    if line is not None:
        print(line, file=sys.stderr)
