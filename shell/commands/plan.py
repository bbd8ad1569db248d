"""``dd-slurm plan``: what would be asked of Slurm and what would run where. Changes nothing."""

import sys

from returns.pipeline import is_successful

from core.codec import canonical_json
from core.plan.explain import explain
from shell.authored.authoring import read_and_plan
from shell.commands.answer import EX_OK, refuse, say_which_profile


def show_plan(run_file: str, profile_file: str | None, cluster: str | None, as_json: bool) -> int:
    """The plan as text, or as its canonical JSON. The exit code."""
    planned = read_and_plan(run_file, profile_file, cluster, None)
    if not is_successful(planned):
        return refuse(planned.failure(), as_json)
    authored = planned.unwrap()
    if as_json:
        sys.stdout.write(canonical_json(authored.plan).decode())
    else:
        say_which_profile(authored)
        sys.stdout.write(explain(authored.plan))
    return EX_OK
