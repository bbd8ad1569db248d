"""``make demo-vllm``: the smallest run with real vLLM servers and the real Data Designer, without a GPU.

It rehearses `one_model` with two replicas on two simulated nodes, with real servers that run a tiny model with random
weights on CPUs, and shows some records. The first argument is a virtual environment that has vLLM for CPUs.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

HERE = Path(__file__).parent
LIMIT_S = 1500
"""Servers that start side by side on two cores need some minutes."""
SERVER_VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # or two servers would bind themselves to the same cores
}


def main(venv: str) -> int:
    """Run the demo; its exit code is that of the rehearsal."""
    work = Path(tempfile.mkdtemp(prefix="dd-slurm-demo-vllm-"))
    model = work / "tiny-model"
    subprocess.run([f"{venv}/bin/python", HERE / "tiny_model.py", model], check=True, timeout=LIMIT_S)
    (work / "run.yaml").write_text(yaml.safe_dump(run_file(os.path.abspath(venv), model), sort_keys=False))
    (work / "profiles.yaml").write_text(yaml.safe_dump(profiles(work)))
    begun = time.monotonic()
    code, printed = rehearse(work)
    if code == os.EX_OK:
        show(json.loads(printed), time.monotonic() - begun)
    return code


def run_file(venv: str, model: Path) -> dict[str, object]:
    """`one_model` with another model, on two nodes, and what vLLM needs on CPUs."""
    authored: dict[str, object] = yaml.safe_load((HERE / "one_model" / "run.yaml").read_text())
    server = {
        "executable": f"{venv}/bin/vllm",
        "lead_boot_standoff": 0,
        "extra_args": ["--dtype=float32", "--max-model-len=1024", "--enforce-eager"],
        "environment": {name: {"type": "literal", "value": value} for name, value in SERVER_VARIABLES.items()},
    }
    deployment = {"model_alias": "writer", "model": str(model), "resources": {"nodes": 2}, "server": server}
    builder = {"source": str(HERE / "one_model" / "config.yaml")}
    return authored | {"builder": builder, "deployments": [deployment]}


def profiles(work: Path) -> dict[str, object]:
    """A cluster without GPUs."""
    site = {"schema_version": 1, "workspace_root": str(work), "gpus_per_node": 0, "container": "none"}
    return {"schema_version": 1, "clusters": {"here": site}}


def rehearse(work: Path) -> tuple[int, bytes]:
    """`dd-slurm rehearse`, ended in order when it takes too long."""
    options = ("--profile-file", "profiles.yaml", "--cluster", "here", "--real-servers", "--json")
    print("$ dd-slurm rehearse run.yaml", *options, f"  # in {work}\n", flush=True)
    command = (sys.executable, "-m", "shell.cli", "rehearse", "run.yaml", *options)
    environ = {**os.environ, "PYTHONPATH": str(HERE.parent.resolve())}
    with subprocess.Popen(command, cwd=work, env=environ, stdout=subprocess.PIPE) as rehearsal:
        try:
            printed, _ = rehearsal.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            print(f"not done within {LIMIT_S} s", file=sys.stderr)
            rehearsal.send_signal(signal.SIGTERM)
            printed, _ = rehearsal.communicate()
    return rehearsal.returncode, printed


def show(rehearsed: dict[str, list[dict[str, list[str]]]], seconds: float) -> None:
    """Where the dataset is, and some rows of it."""
    import pyarrow.parquet

    files = [file for shard in rehearsed["shards"] for file in shard["files"]]
    tables = [pyarrow.parquet.read_table(file) for file in files]
    print(f"\n{sum(table.num_rows for table in tables)} records in {seconds:.0f} s:", *files, sep="\n  ")
    print("\nthree of them; random weights speak no English:")
    for row in tables[0].slice(0, 3).to_pylist():
        print(json.dumps(row, indent=2, default=str))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
