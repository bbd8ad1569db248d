"""`dd-slurm submit` against a real Slurm: accepted, refused, held until recorded, found when the answer is lost."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.layout import RunPaths
from shell.worker.descendants import signal_all
from tests.local.local_run import until
from tests.slurm.cluster import Cluster
from tests.slurm.options import PROJECT
from tests.slurm.slurm_run import SlurmRun

FULL = {"resources": {"nodes": 4}}


def words(run: SlurmRun, target: object = None) -> tuple[str, ...]:
    profile = ("--profile-file", str(run.folder / "profiles.json"))
    return (sys.executable, "-m", "shell.cli", "submit", str(target or run.run_file), *profile, "--json")


def submit(run: SlurmRun, target: object = None, check: bool = True) -> tuple[int, dict[str, Any]]:
    """Exit code and what was said."""
    environ = {"PYTHONPATH": str(PROJECT)}
    said = run.cluster.run(words(run, target), env=environ, cwd=run.folder, check=check, timeout_s=300)
    return said.returncode, json.loads(said.stdout)


def run_folder(run: SlurmRun) -> Path:
    (folder,) = (run.folder / "workspace" / "runs").iterdir()
    return folder


def jobs(cluster: Cluster, *options: str) -> list[str]:
    """Task, state and reason of everything that is in the queue."""
    said = cluster.run(("squeue", "-h", "-r", *options, "-o", "%i %T %r"), user="root").stdout
    return sorted(said.splitlines())


@contextmanager
def slurmctld_stopped(cluster: Cluster) -> Iterator[None]:
    """It gets requests, which wait in its socket, and answers none until it is let go."""
    pid = int(cluster.run(("cat", "/run/slurmctld.pid"), user="root").stdout)
    signal_all([pid], signal.SIGSTOP)
    try:
        yield
    finally:
        signal_all([pid], signal.SIGCONT)
        until(lambda: cluster.run(("scontrol", "ping"), user="root").stdout.count("UP") > 0, "slurmctld to answer")


def test_an_array_is_accepted_recorded_and_released(cluster: Cluster) -> None:
    run = SlurmRun(cluster, FULL, array_tasks={"count": 3, "max_concurrent": 1})
    code, said = submit(run)
    paths = RunPaths(root=said["run_dir"]).submission(1)
    assert (code, said["state"]) == (0, "submitted")
    assert json.loads(Path(paths.receipt).read_text())["receipt"]["job"]["job_id"] == said["job_id"]
    assert Path(paths.released).exists()
    shown = cluster.show_job(said["job_id"])
    name = json.loads(Path(paths.intent).read_text())["job_name"]
    assert f"JobName={name}" in shown
    assert "ArrayTaskThrottle=1" in shown
    assert "Requeue=0" in shown
    assert len(jobs(cluster)) == 3
    assert not [line for line in jobs(cluster) if "JobHeldUser" in line]
    assert submit(run, said["run_dir"])[1]["job_id"] == said["job_id"]
    assert len(jobs(cluster)) == 3


def test_the_log_of_the_job_is_private_and_where_it_was_said(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {})
    _, said = submit(run)
    log = Path(said["logs"]) / f"slurm-{said['job_id']}.out"
    until(log.exists, str(log))
    assert log.stat().st_mode & 0o077 == 0


def test_refused_by_slurm(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {}, submission={"partition": "nowhere"})
    code, said = submit(run, check=False)
    assert (code, said["state"], said["job_id"]) == (78, "refused", None)
    assert "Invalid partition name specified" in said["message"]
    assert "submission.partition" in said["next_steps"][0]
    assert jobs(cluster) == []


def test_an_answer_that_is_lost_is_found_by_name(cluster: Cluster) -> None:
    """sbatch gives up after MessageTimeout while slurmctld has the request in its socket, and takes it later."""
    run = SlurmRun(cluster, FULL, array_tasks={"count": 2})
    with slurmctld_stopped(cluster):
        process = cluster.start(words(run), env={"PYTHONPATH": str(PROJECT)}, cwd=run.folder)
        _wait_until_unclear(process)
    out, _ = process.communicate(timeout=120)
    said = json.loads(out)
    assert (process.returncode, said["state"]) == (0, "submitted")
    assert "found by its name" in said["message"]
    tasks = jobs(cluster)
    assert [line.split()[0] for line in tasks] == [f"{said['job_id']}_{index}" for index in (0, 1)]
    assert not [line for line in tasks if "JobHeldUser" in line]


def _wait_until_unclear(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "looking for the job by its name" in line, line


def test_killed_while_sbatch_waits_it_stays_held_until_taken_up(cluster: Cluster) -> None:
    """`kill -9` of dd-slurm in the middle: the job comes up held, and nothing runs until somebody takes it up."""
    run = SlurmRun(cluster, FULL)
    with slurmctld_stopped(cluster):
        process = cluster.start(words(run), env={"PYTHONPATH": str(PROJECT)}, cwd=run.folder)
        until(lambda: bool(list(run.folder.glob("workspace/runs/*/submissions/1/batch.sh"))), "the batch script")
        until(lambda: any("sbatch --parsable" in one.command for one in cluster.job_processes("login")), "sbatch")
        process.kill()
        process.communicate()
    until(lambda: len(jobs(cluster)) == 1, "the job")
    assert "JobHeldUser" in jobs(cluster)[0]
    code, said = submit(run, run_folder(run))
    assert (code, said["state"]) == (0, "submitted")
    assert said["job_id"] == jobs(cluster)[0].split()[0]
    assert "JobHeldUser" not in jobs(cluster)[0]


def test_slurm_is_away_and_then_three_try_at_once(cluster: Cluster) -> None:
    """No slurmctld: sbatch itself says that it could not connect. Later one job comes of three calls."""
    run = SlurmRun(cluster, FULL)
    conf = cluster.folder_for("conf") / "slurm.conf"
    conf.write_text(f"{cluster.run(('cat', '/etc/slurm/slurm.conf'), user='root').stdout}\nSlurmctldPort=9\n")
    conf.chmod(0o644)
    environ = {"PYTHONPATH": str(PROJECT), "SLURM_CONF": str(conf)}
    said = cluster.run(words(run), env=environ, cwd=run.folder, check=False)
    answer = json.loads(said.stdout)
    assert (said.returncode, answer["state"]) == (69, "not-accepted"), answer["message"]
    again = words(run, run_folder(run))
    rivals = [cluster.start(again, env={"PYTHONPATH": str(PROJECT)}, cwd=run.folder) for _ in range(3)]
    said_by_rivals = [json.loads(rival.communicate(timeout=120)[0]) for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0, 0]
    (job_id,) = {str(one["job_id"]) for one in said_by_rivals}
    assert {one["submission"] for one in said_by_rivals} == {2}
    assert {line.split()[0] for line in jobs(cluster)} == {job_id}


def test_more_nodes_than_there_are(cluster: Cluster) -> None:
    """Slurm takes the job and lets it wait for ever; we say so."""
    run = SlurmRun(cluster, {"resources": {"nodes": 9}})
    code, said = submit(run)
    assert (code, said["state"]) == (0, "submitted")
    assert said["doubt"] == "Requested node configuration is not available"
    assert submit(SlurmRun(cluster, FULL))[1]["doubt"] is None
