"""Where the real vLLM of these tests is, and what it needs to run on CPUs."""

import os
import subprocess
from pathlib import Path
from typing import Any

PYTHON = "DD_SLURM_VLLM_PYTHON"
PATIENCE_S = 900
"""vLLM alone takes a quarter of a minute to be imported, and much longer on a busy machine."""
EXAMPLES = Path(__file__).parents[2] / "examples"
_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def vllm_python() -> str:
    """The Python of its environment."""
    python = os.environ.get(PYTHON)
    assert python, f"{PYTHON} must name the Python of an environment that has vLLM (`make vllm` sets it)"
    return python


def make_model(folder: Path) -> None:
    """A tiny model that everybody can read."""
    subprocess.run([vllm_python(), EXAMPLES / "tiny_model.py", folder], check=True, timeout=PATIENCE_S)
    for path in folder.iterdir():
        path.chmod(0o644)


def server(*arguments: str) -> dict[str, Any]:
    """`server` of a deployment."""
    return {
        "executable": str(Path(vllm_python()).with_name("vllm")),
        "extra_args": ["--dtype=float32", "--max-model-len=512", *arguments],
        "environment": {name: {"type": "literal", "value": value} for name, value in _VARIABLES.items()},
    }
