"""``make demo``: the main job on two simulated nodes with the real Data Designer, and a server rank that is killed.

It rehearses `writer_and_judge` (a writer with two replicas, a judge, seed data, a JSON schema, two shards, 96 records),
kills one process of the writer with SIGKILL while records are made, and shows that all records are there in the end.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
SHOWN = ("product", "tone", "review", "quality")


def main() -> int:
    """Run the demo; its exit code is that of the rehearsal."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="dd-slurm-demo-"))
    run_file = HERE / "writer_and_judge" / "run.yaml"
    command = [sys.executable, "-m", "shell.cli", "rehearse", str(run_file)]
    options = ["--profile-file", str(HERE / "profiles.yaml"), "--cluster", "small", "--workspace", str(work), "--json"]
    slow = {"ttft_ms": 150}
    environ = {**os.environ, "DD_SLURM_SIMULATE": json.dumps(slow), "PYTHONPATH": str(HERE.parent)}
    print(f"$ dd-slurm rehearse {run_file} --profile-file {HERE / 'profiles.yaml'} --cluster small\n", flush=True)
    with subprocess.Popen([*command, *options], env=environ, stdout=subprocess.PIPE) as rehearsal:
        threading.Thread(target=kill_one_rank, args=(work, rehearsal), daemon=True).start()
        printed, _ = rehearsal.communicate()
    if rehearsal.returncode == 0:
        show(json.loads(printed))
    return rehearsal.returncode


def kill_one_rank(work: pathlib.Path, rehearsal: "subprocess.Popen[bytes]") -> None:
    """Once the first records are made, kill a server process of the writer, as a failing GPU would."""
    while rehearsal.poll() is None:
        progress = work.glob("runs/*/shards/*/attempts/*/progress.json")
        done = [json.loads(path.read_text())["records_done"] for path in progress]
        started = sorted(work.glob("runs/*/shards/00000/attempts/*/tasks/writer-1.1.*.started.json"))
        if any(done) and started:
            lane = json.loads(started[0].read_text())["lanes"][0]
            os.kill(lane["pid"], signal.SIGKILL)
            print(f"\n*** kill -9 of {lane['name']} (pid {lane['pid']}), {sum(done)} records done\n", file=sys.stderr)
            return
        time.sleep(0.05)


def show(rehearsed: dict[str, list[dict[str, list[str]]]]) -> None:
    """Where the dataset is, and some rows of it."""
    import pyarrow.parquet

    files = [file for shard in rehearsed["shards"] for file in shard["files"]]
    tables = [pyarrow.parquet.read_table(file) for file in files]
    print(f"\n{sum(table.num_rows for table in tables)} records in {len(files)} files below {rehearsed['run_dir']}:")
    for file in files:
        print(f"  {os.path.relpath(file, str(rehearsed['run_dir']))}")
    print("\nthree of them:")
    for row in tables[0].slice(0, 3).to_pylist():
        print(json.dumps({name: row[name] for name in SHOWN if name in row}, indent=2, default=str))


if __name__ == "__main__":
    sys.exit(main())
