"""The Python that has the peer, `data-designer-slurm`: the one given by ``--peer``, or a venv made here once."""

import argparse
import subprocess
import sys
from pathlib import Path

PEER = "data-designer-slurm==1.0.0rc1"
VENV = Path(__file__).resolve().parent.parent / ".bench-venv"


def add_peer_option(parser: argparse.ArgumentParser) -> None:
    """``--peer PYTHON``, or ``--peer none`` to measure only ourselves."""
    parser.add_argument(
        "--peer",
        metavar="PYTHON",
        default="",
        help=f"a Python that has {PEER}; none leaves the peer out; default: a venv in {VENV.name}, made if missing",
    )


def find_peer(asked: str) -> str | None:
    """The interpreter to compare with; None when the peer is left out."""
    if asked == "none":
        return None
    return asked or _own_venv()


def _own_venv() -> str:
    python = VENV / "bin" / "python"
    installed = VENV / ".installed"
    if not installed.exists():
        print(f"installing {PEER} into {VENV.name} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "--pre", PEER], check=True)
        installed.touch()
    return str(python)
