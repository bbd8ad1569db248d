"""Reading what the user wrote, from the disk, and asking core for a plan."""

import os
import socket

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.config.located import Located
from core.config.profile import Profile
from core.config.read import choose_cluster, read_profile_catalog, read_run_file
from core.config.run_config import RunConfig
from core.outcome import Outcome, both, problems_of, refuse
from core.plan.model import RunPlan
from core.plan.run_plan import plan_run
from core.problem import At, Malformed, Unreadable
from shell.ordinary_file import LARGEST_MIB, NotOrdinary, read_ordinary

PROFILE_VARIABLES = ("DD_SLURM_PROFILE_FILE", "DATA_DESIGNER_SLURM_PROFILE_FILE")
PROFILE_HOMES = ("~/.config/dd-slurm/profiles.yaml", "~/.data-designer-slurm-profile.yml")
LOCAL_PROFILE = Profile(workspace_root="/", gpus_per_node=8, container="none")
"""What is assumed when nobody has written a profile: good for plans and rehearsals only."""


class Authored(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the files that it came from. `profile_file` is None when the built-in profile was used."""

    run_file: str
    profile_file: str | None
    plan: RunPlan
    builder: bytes | None
    """The Data Designer config as it was read; None for a client command."""


def read_and_plan(
    run_file: str, profile_file: str | None, cluster: str | None, workspace: str | None
) -> Outcome[Authored]:
    """The plan for a run file. `workspace` replaces that of the profile.

    Errors: `Unreadable`, and everything that files and plans can get wrong; of both files together.
    """
    found = profile_file or find_profile_file()
    run = _read(run_file).bind(lambda content: read_run_file(os.path.basename(run_file), content))
    site = _site(found, cluster, workspace)
    sources = run.bind(lambda located: _builder(located, os.path.dirname(os.path.abspath(run_file))))
    if not is_successful(run) or not is_successful(site):
        return refuse(*problems_of(sources), *problems_of(site))
    return both(plan_run(run.unwrap(), *site.unwrap()), sources).map(
        lambda pair: Authored(run_file=run_file, profile_file=found, plan=pair[0], builder=pair[1])
    )


def find_profile_file() -> str | None:
    """The catalog named by the environment, or the one at home, or none."""
    named = next((os.environ[name] for name in PROFILE_VARIABLES if os.environ.get(name)), None)
    homes = (os.path.expanduser(path) for path in PROFILE_HOMES)
    return named or next((path for path in homes if os.path.exists(path)), None)


def _site(found: str | None, cluster: str | None, workspace: str | None) -> Outcome[tuple[str, Profile, At | None]]:
    if found is None:
        return Success(("built-in", _in_workspace(LOCAL_PROFILE, workspace or os.getcwd()), None))
    catalog = _read(found).bind(lambda content: read_profile_catalog(os.path.basename(found), content))
    if not is_successful(catalog):
        return refuse(*catalog.failure())
    located = catalog.unwrap()
    return choose_cluster(located, cluster, socket.gethostname()).map(
        lambda pair: (
            pair[0],
            _in_workspace(pair[1], workspace),
            located.at(f"clusters.{pair[0]}.ports.range"),
        )
    )


def _in_workspace(profile: Profile, workspace: str | None) -> Profile:
    if workspace is None:
        return profile
    return msgspec.structs.replace(profile, workspace_root=os.path.abspath(workspace))


def _builder(run: Located[RunConfig], folder: str) -> Outcome[bytes | None]:
    """The Data Designer config: read now, so that later edits change nothing."""
    builder = run.value.builder
    if builder is None:
        return Success(None)
    if builder.source is None:
        return Success((builder.inline or "").encode())
    at = run.at("builder.source")
    return _read(os.path.join(folder, builder.source), at).map(lambda content: content)


def _read(path: str, at: At | None = None) -> Outcome[bytes]:
    where = at or At(source=os.path.basename(path) or path)
    try:
        content = read_ordinary(path)
    except OSError as error:
        return refuse(Unreadable(at=where, reason=f"{path}: {error.strerror}"))
    except NotOrdinary as wrong:
        expected = f"an ordinary file of at most {LARGEST_MIB} MiB"
        return refuse(Malformed(at=where, found=f"{wrong.found} at {path!r}", expected=expected))
    return Success(content)
