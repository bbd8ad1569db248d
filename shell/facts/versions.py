"""Which vLLM an executable is. Runs inside the serving container: standard library only."""

import os
import re
import sys

ANSWER_WITHIN_S = 60.0
"""`vllm --version` imports torch: many seconds from a cold network file system."""
_SAY_INSTALLED = "import importlib.metadata as installed; print(installed.version('vllm'))"
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?\S*")


def vllm_version(executable: str) -> str | None:
    """Its version; None when it does not say one in time."""
    python = _python_of(executable)
    if python == sys.executable:
        installed = _installed()
    else:
        installed = _said((python, "-c", _SAY_INSTALLED)) if python is not None else None
    return installed or _said((executable, "--version"))


def _python_of(executable: str) -> str | None:
    """The interpreter that the first line of a Python script names.

    What is installed for it says the version within a second; the script itself needs up to a minute, as it imports
    torch first.
    """
    try:
        with open(executable, "rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!") else []
    found = os.fsdecode(words[0]) if len(words) == 1 else ""
    return found if os.path.basename(found).startswith("python") else None


def _installed() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vllm")
    except PackageNotFoundError:
        return None


def _said(command: tuple[str, ...]) -> str | None:
    import subprocess

    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_WITHIN_S, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return last_version(done.stdout) if done.returncode == 0 else None


def last_version(text: str) -> str | None:
    """The last line that is or ends in a version: warnings may come before it."""
    words = (line.split()[-1] for line in reversed(text.splitlines()) if line.split())
    return next((word for word in words if _VERSION.fullmatch(word)), None)
