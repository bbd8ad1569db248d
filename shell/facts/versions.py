"""Which vLLM an executable is. Runs inside the serving container: standard library only."""

import os
import re
import sys

ANSWER_WITHIN_S = 60.0
"""`vllm --version` imports torch: many seconds from a cold network file system."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?\S*")


def vllm_version(executable: str) -> str | None:
    """Its version; None when it does not say one in time."""
    if _is_of_this_python(executable):
        installed = _installed()
        if installed is not None:
            return installed
    return _asked(executable)


def _is_of_this_python(executable: str) -> bool:
    """Whether the script's first line names the interpreter that runs us; then no process is needed."""
    try:
        with open(executable, "rb") as file:
            first = file.readline(512)
    except OSError:
        return False
    return first.startswith(b"#!") and first[2:].split()[:1] == [os.fsencode(sys.executable)]


def _installed() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vllm")
    except PackageNotFoundError:
        return None


def _asked(executable: str) -> str | None:
    import subprocess

    command = [executable, "--version"]
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
