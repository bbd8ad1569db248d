"""Reading what the user wrote, from the disk, and asking core for a plan."""

import os
import socket
from typing import TypeAlias

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.config.profile import Profile
from core.config.read import Draft, choose_cluster, draft_run_file, read_profile_catalog
from core.config.run_config import RunConfig
from core.outcome import Outcome, both, problems_of, refuse
from core.plan.first_look import placement_problems
from core.plan.model import RunPlan
from core.plan.run_plan import plan_run
from core.problem import At, Problems, UnknownName
from shell.authored.builder_file import read_builder
from shell.authored.files_read import read_file

PROFILE_VARIABLES = ("DD_SLURM_PROFILE_FILE", "DATA_DESIGNER_SLURM_PROFILE_FILE")
PROFILE_HOMES = ("~/.config/dd-slurm/profiles.yaml", "~/.data-designer-slurm-profile.yml")
LOCAL_PROFILE = Profile(workspace_root="/", gpus_per_node=8, container="none")
"""What is assumed when nobody has written a profile: good for plans and rehearsals only."""


Site: TypeAlias = tuple[str, Profile, At | None]
"""A cluster's name and profile, and where the catalog gives its ports."""


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
    site = _site(found, cluster, workspace)
    read = read_file(run_file).map(lambda content: draft_run_file(os.path.basename(run_file), content))
    if not is_successful(read):
        return refuse(*read.failure(), *problems_of(site))
    run = read.unwrap()
    builder = read_builder(run, os.path.dirname(os.path.abspath(run_file)))
    if run.problems:
        return refuse(*run.problems, *problems_of(builder), *_early_problems(run, site))
    planned = site.bind(lambda chosen: plan_run(run.located, *chosen))
    return both(builder, planned).map(
        lambda pair: Authored(run_file=run_file, profile_file=found, plan=pair[1], builder=pair[0])
    )


def _early_problems(run: Draft[RunConfig], site: Outcome[Site]) -> Problems:
    """What is known to be wrong however the run file will be mended."""
    if not is_successful(site):
        return site.failure()
    _, profile, _ = site.unwrap()
    return tuple(placement_problems(run, None if profile.gpus_per_node == "auto" else profile.gpus_per_node))


def find_profile_file() -> str | None:
    """The catalog named by the environment, or the one at home, or none."""
    named = next((os.environ[name] for name in PROFILE_VARIABLES if os.environ.get(name)), None)
    homes = (os.path.expanduser(path) for path in PROFILE_HOMES)
    return named or next((path for path in homes if os.path.exists(path)), None)


def _site(found: str | None, cluster: str | None, workspace: str | None) -> Outcome[Site]:
    if found is None and cluster is not None:
        at = At(source="no catalog of clusters", path="--cluster")
        return refuse(UnknownName(at=at, what="cluster", value=cluster, known=(), suggestion=None))
    if found is None:
        return Success(("built-in", _in_workspace(LOCAL_PROFILE, workspace or os.getcwd()), None))
    catalog = read_file(found).bind(lambda content: read_profile_catalog(os.path.basename(found), content))
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
