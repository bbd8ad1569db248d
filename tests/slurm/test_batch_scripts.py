"""Our batch scripts as the real sbatch reads them."""

import re
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.problem import At
from core.slurm.sbatch import ArrayRequest, render_batch
from core.slurm.scontrol import JobRecord, parse_show_job
from tests.core.test_slurm_sbatch import PLAIN
from tests.slurm.cluster import Cluster

GOLDEN = sorted((Path(__file__).parents[1] / "golden_batch").glob("*.sh"))
HERE = (
    # What the golden files name and this cluster does not have.
    (re.compile(r"--partition=gpu,gpu-long\n"), "--partition=batch\n"),
    (re.compile(r"--exclude=gpu\[07-08,12\]\n"), "--exclude=c[1,4]\n"),
    (re.compile(r"--mem-per-gpu=80G\n"), "--mem-per-gpu=8G\n"),
)


@pytest.fixture
def earlier(cluster: Cluster) -> str:
    """A job that a continuation can wait for."""
    return cluster.submit("true", "--hold", user="alice")


def adapted(text: str, earlier: str) -> str:
    for found, instead in HERE:
        text = found.sub(instead, text)
    return text.replace("afterany:4711\n", f"afterany:{earlier}\n")


def show(cluster: Cluster, script: str) -> JobRecord:
    """The job that the script becomes, before anything of it runs."""
    job = cluster.submit(script, "--hold", user="alice")
    (record,) = parse_show_job(cluster.show_job(job)).unwrap()
    return record


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_sbatch_accepts_the_script(cluster: Cluster, earlier: str, path: Path) -> None:
    script = adapted(path.read_text(), earlier)
    assert subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=True).stderr == ""
    said = cluster.run(("sbatch", "--test-only"), user="alice", stdin=script)
    assert re.fullmatch(
        r"sbatch: Job \d+ to start at \S+ using \d+ processors on nodes \S+ in partition batch\n", said.stderr
    )


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--nodes=5 --ntasks=5", "Requested node configuration is not available"),
        ("--gres=gpu:9", "Requested node configuration is not available"),
        ("--partition=gpu", "invalid partition specified"),
    ],
)
def test_sbatch_refuses_what_the_cluster_does_not_have(cluster: Cluster, earlier: str, option: str, said: str) -> None:
    script = adapted((GOLDEN[0].parent / "one_job.sh").read_text(), earlier)
    for word in option.split():
        name = word.partition("=")[0]
        assert re.search(rf"{name}=", script)
        script = re.sub(rf"{name}=\S+", word, script)
    refused = cluster.run(("sbatch", "--test-only"), user="alice", stdin=script, check=False)
    assert refused.returncode != 0
    assert said in refused.stderr


def test_slurm_reads_every_directive_as_it_was_meant(cluster: Cluster, earlier: str) -> None:
    job = show(cluster, adapted((GOLDEN[0].parent / "blanks_in_paths.sh").read_text(), earlier))
    assert (job.name, job.comment) == ("dd-20260101-writer-a1b2-1", "night run, 50% done")
    assert job.work_dir == "/scratch/my runs/r1"
    # scontrol shows the pattern, with the % of the folder still doubled.
    assert job.output == f"/scratch/my runs/100%%/logs/slurm-{job.job_id}.out"
    assert (job.partition, job.least_nodes, job.time_limit_s, job.requeue) == ("batch", 2, 14_100, False)


def test_slurm_reads_an_array_with_its_limit(cluster: Cluster, earlier: str) -> None:
    job = show(cluster, adapted((GOLDEN[0].parent / "retry_of_some.sh").read_text(), earlier))
    assert job.array is not None
    assert (job.array.job_id, job.array.tasks) == (job.job_id, "1,3-5,9-10%2")


def test_a_continuation_waits_for_the_job_before(cluster: Cluster, earlier: str) -> None:
    script = adapted((GOLDEN[0].parent / "continuation_with_bundle.sh").read_text(), earlier)
    waiting = cluster.submit(script, user="alice")
    shown = cluster.show_job(waiting)
    assert f"Dependency=afterany:{earlier}(unfulfilled)" in shown
    assert parse_show_job(shown).unwrap()[0].state == "PENDING"


def test_the_log_is_where_we_look_for_it(cluster: Cluster) -> None:
    folder = cluster.folder_for("my 100%j runs", "alice")
    python = folder / "python"
    python.write_text("#!/bin/sh\necho out; echo err >&2\n")
    python.chmod(0o755)
    place = {"log_dir": str(folder), "run_dir": str(folder), "python": str(python)}
    here = replace(PLAIN, account=None, partitions=(), mem_per_gpu=None, **place)
    array = replace(here, array=ArrayRequest(indices=(0, 2)))
    jobs = [cluster.submit(render_batch(one, At(source="test")).unwrap(), user="alice") for one in (here, array)]
    for job in jobs:
        cluster.wait_gone(job)
    found = {path.name: path.read_text() for path in folder.glob("*.out")}
    names = (f"slurm-{jobs[0]}.out", f"slurm-{jobs[1]}_0.out", f"slurm-{jobs[1]}_2.out")
    assert found == dict.fromkeys(names, "out\nerr\n")
