"""How commands answer: exit codes, and problems for people or for programs."""

import sys

from core.codec import canonical_json
from core.problem import Problems
from core.report import as_text, report
from shell.authored.authoring import Authored

EX_OK, EX_DATAERR = 0, 65
SIGNALLED = 128
"""Exit codes above are 128 + the number of a signal."""


def refuse(problems: Problems, as_json: bool) -> int:
    """Every problem, for people or for programs."""
    if as_json:
        sys.stdout.write(canonical_json({"problems": [report(problem) for problem in problems]}).decode())
    for problem in problems:
        print(as_text(problem), file=sys.stderr)
    return EX_DATAERR


def say_which_profile(authored: Authored) -> None:
    """What was assumed of the cluster, when nothing was said of it."""
    if authored.profile_file is None:
        print("no profile: planned for nodes with 8 GPUs; give the cluster's with --profile-file\n")
