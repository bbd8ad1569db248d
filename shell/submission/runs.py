"""Making the folder of a run: the plan and all that it needs, so that later edits of authored files change nothing."""

import os
import sys
from typing import TYPE_CHECKING

import msgspec
from returns.result import Success

from core.codec import canonical_json
from core.layout import RunPaths, run_paths
from core.outcome import Outcome, refuse
from core.plan.judge import Rehearsal
from core.plan.model import RunPlan
from core.problem import At, Unwritable
from shell.store import make_folder, write_atomic

if TYPE_CHECKING:
    from shell.authored.authoring import Authored


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`run.json`: what is not part of the plan. `rehearsal` is None for the real thing."""

    run_id: str
    run_file: str
    base_folder: str
    profile_file: str | None
    user: str
    python: str
    bundle: str
    rehearsal: Rehearsal | None


def create_run(authored: "Authored", rehearsal: Rehearsal | None) -> Outcome[tuple[str, RunPaths]]:
    """A new run folder, complete; its id is the run's name, the time and a random tail. Errors: `Unwritable`."""
    try:
        return Success(_create_run(authored, rehearsal))
    except OSError as error:
        root = authored.plan.site.workspace_root
        return refuse(Unwritable(at=At(source="workspace"), path=root, reason=str(error.strerror)))


def _create_run(authored: "Authored", rehearsal: Rehearsal | None) -> tuple[str, RunPaths]:
    # Controllers, which only read runs, start without what follows.
    import datetime
    import getpass
    import secrets

    from shell.bundle import write_bundle

    stamp = datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    run_id = f"{authored.plan.name}-{stamp}-{secrets.token_hex(3)}"
    paths = run_paths(authored.plan.site.workspace_root, run_id)
    make_folder(paths.root)
    run_file = os.path.abspath(authored.run_file)
    record = RunRecord(
        run_id=run_id,
        run_file=run_file,
        base_folder=os.path.dirname(run_file),
        profile_file=authored.profile_file and os.path.abspath(authored.profile_file),
        user=getpass.getuser(),
        python=sys.executable,
        bundle=write_bundle(paths.root),
        rehearsal=rehearsal,
    )
    if authored.builder is not None:
        write_atomic(paths.builder, authored.builder)
    write_atomic(paths.plan, canonical_json(authored.plan))
    write_atomic(paths.run, canonical_json(record))
    return run_id, paths


def read_run(root: str) -> tuple[RunRecord, RunPlan]:
    """The record and the plan of a run. Raises OSError or `msgspec.ValidationError` for a folder that is no run."""
    paths = RunPaths(root=root)
    with open(paths.run, "rb") as file:
        record = msgspec.json.decode(file.read(), type=RunRecord)
    with open(paths.plan, "rb") as file:
        plan = msgspec.json.decode(file.read(), type=RunPlan)
    return record, plan


def last_lines(path: str, count: int) -> tuple[str, ...]:
    """The end of a log, without reading all of it; nothing when there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(line for line in lines if line.strip())[-count:]
