"""The records of submissions in a run folder. Who creates an intent may ask sbatch; the first receipt stands."""

import hashlib
import os
import socket
import time

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.codec import canonical_json
from core.layout import RunPaths, SubmissionPaths
from core.outcome import Outcome, refuse
from core.plan.model import RunPlan
from core.problem import At
from core.slurm.sbatch import job_name, render_batch
from core.submit.records import Intent, Job, Receipt, ReceiptFile, ReleaseFile, Submitted
from core.submit.request import ALL, RunFacts, Wanted, batch_request, shards_of
from core.submit.state import Fresh, LeftUnclear, Settled, Start
from shell.store import create_once, make_folder, write_atomic
from shell.submission.runs import RunRecord, read_run


def latest_number(run: RunPaths) -> int | None:
    """The number of the last submission; a folder without an intent is none yet."""
    try:
        names = os.listdir(run.submissions)
    except FileNotFoundError:
        return None
    numbers = (int(name) for name in names if name.isdecimal() and os.path.exists(run.submission(int(name)).intent))
    return max(numbers, default=None)


def new_intent(root: str, number: int, wanted: Wanted = ALL) -> Outcome[tuple[Intent, Start]]:
    """Write down what is to be submitted under this number, unless that has been done: then it is taken up.

    Errors: `Malformed` for what a batch script cannot say.
    """
    run, (record, plan) = RunPaths(root=root), read_run(root)
    paths = run.submission(number)
    rendered = render(run, record, plan, number, wanted)
    if not is_successful(rendered):
        return refuse(*rendered.failure())
    script = rendered.unwrap().encode()
    intent = Intent(
        run_id=record.run_id,
        number=number,
        job_name=job_name(record.run_id, number, plan.request.job_name),
        user_id=os.getuid(),
        host=socket.gethostname(),
        indices=shards_of(plan, wanted),
        plan_sha256=plan_digest(run),
        script_sha256=hashlib.sha256(script).hexdigest(),
        created_unix_ms=_now(),
        retry=wanted.retry,
    )
    make_folder(paths.logs)
    if not create_once(paths.intent, canonical_json(intent)):
        return Success(take_up(root, number))
    write_atomic(paths.batch, script)
    return Success((intent, Fresh()))


def render(run: RunPaths, record: RunRecord, plan: RunPlan, number: int, wanted: Wanted = ALL) -> Outcome[str]:
    """The batch script of a submission."""
    facts = RunFacts(
        run_id=record.run_id,
        run_dir=run.root,
        log_dir=run.submission(number).logs,
        python=record.python,
        bundle=record.bundle,
    )
    return render_batch(batch_request(plan, facts, number, wanted), At(source="batch script"))


def take_up(root: str, number: int) -> tuple[Intent, Start]:
    """A submission that was begun before, as far as it has come."""
    paths = RunPaths(root=root).submission(number)
    with open(paths.intent, "rb") as file:
        intent = msgspec.json.decode(file.read(), type=Intent)
    receipt = read_receipt(paths)
    if receipt is None:
        return intent, LeftUnclear()
    return intent, Settled(receipt=receipt, released=os.path.exists(paths.released))


def read_receipt(paths: SubmissionPaths) -> Receipt | None:
    """How the submission ended; None while that is open."""
    try:
        with open(paths.receipt, "rb") as file:
            return msgspec.json.decode(file.read(), type=ReceiptFile).receipt
    except FileNotFoundError:
        return None


def submission_of(run: RunPaths, job_id: str) -> Intent | None:
    """The submission that became this job; of an array its common id."""
    for number in range(latest_number(run) or 0, 0, -1):
        receipt = read_receipt(run.submission(number))
        if isinstance(receipt, Submitted) and receipt.job.job_id == job_id:
            return take_up(run.root, number)[0]
    return None


def record_receipt(paths: SubmissionPaths, receipt: Receipt) -> Receipt:
    """Create the receipt, and give the one that stands: this one, or an earlier one."""
    content = canonical_json(ReceiptFile(receipt=receipt, written_unix_ms=_now()))
    if create_once(paths.receipt, content):
        return receipt
    standing = read_receipt(paths)
    assert standing is not None, "a receipt is never removed"
    return standing


def mark_released(paths: SubmissionPaths, job: Job) -> None:
    """Write down that the job was let go."""
    write_atomic(paths.released, canonical_json(ReleaseFile(job=job, written_unix_ms=_now())))


def plan_digest(run: RunPaths) -> str:
    """Of `plan.json`: what all submissions of a run have in common."""
    with open(run.plan, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000_000
