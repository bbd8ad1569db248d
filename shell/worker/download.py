"""The command that fetches a model, on the node that does it.

Runs inside the serving container: standard library only.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence

from core.layout import fetch_answer
from core.plan.bound import Download

_LONGEST_LINE = 4096


def download_argv(
    download: Download, executable: Sequence[str], tasks: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The whole command."""
    answer = fetch_answer(tasks, download.step)
    python = interpreter_of(executable[0], environ)
    return (python, "-m", "shell.fetch_model", download.model, download.revision or "-", answer)


def download_variables() -> dict[str, str]:
    """What it gets otherwise than the servers: only it may use the network."""
    return {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}


def interpreter_of(executable: str, environ: Mapping[str, str]) -> str:
    """The interpreter that the first lines of a script name, else our own: vLLM's has the tool that fetches."""
    found = shutil.which(executable, path=environ.get("PATH", os.defpath))
    if found is None:
        return sys.executable
    if os.path.basename(found).startswith("python"):
        return found
    try:
        with open(found, "rb") as file:
            first, second = file.readline(_LONGEST_LINE), file.readline(_LONGEST_LINE)
    except OSError:
        return sys.executable
    names = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if names[:1] == ["/bin/sh"] and second.startswith(b"'''exec'"):
        # What installers write where the path of the interpreter is too long for a first line.
        names = shlex.split(os.fsdecode(second))
    return next((name for name in names if os.path.basename(name).startswith("python")), sys.executable)
