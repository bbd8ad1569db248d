"""Batch scripts: a golden file per case, and nothing in a directive that its syntax could misread."""

import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.problem import At
from core.slurm.sbatch import ArrayRequest, BatchRequest, job_name, render_batch
from core.units import NodeName
from tests.conftest import Golden

AT = At(source="submission")
GOLDEN = Path(__file__).parents[1] / "golden_batch"
PLAIN = BatchRequest(
    run_id="20260101-writer-a1b2",
    number=1,
    nodes=2,
    gpu_request_mode="gres",
    gpus_per_node=8,
    cpus_per_node=64,
    mem_per_gpu="80G",
    account="research",
    partitions=("gpu", "gpu-long"),
    time_limit="03:55:00",
    comment=None,
    array=None,
    excluded=(),
    after_job=None,
    requeue=False,
    margin_s=600,
    log_dir="/scratch/dd/runs/r1/submissions/1",
    run_dir="/scratch/dd/runs/r1",
    python="/opt/venv/bin/python",
    bundle=None,
)
replace = msgspec.structs.replace
CASES = {
    "one_job": PLAIN,
    "array_with_a_limit": replace(PLAIN, array=ArrayRequest(indices=tuple(range(6)), max_concurrent=2)),
    "array_without_a_limit": replace(PLAIN, array=ArrayRequest(indices=(0, 1, 2), max_concurrent=3)),
    "retry_of_some": replace(
        PLAIN,
        number=2,
        array=ArrayRequest(indices=(9, 1, 3, 4, 5, 10), max_concurrent=2),
        excluded=(NodeName("gpu12"), NodeName("gpu07"), NodeName("gpu08")),
    ),
    "whole_nodes": replace(PLAIN, gpu_request_mode="visible", gpus_per_node=8, mem_per_gpu="80G"),
    "cpus_only": replace(PLAIN, gpus_per_node=0, mem_per_gpu=None, cpus_per_node=4, nodes=1),
    "site_defaults": replace(
        PLAIN, account=None, partitions=(), cpus_per_node=None, mem_per_gpu=None, margin_s=0, requeue=True
    ),
    "blanks_in_paths": replace(
        PLAIN,
        comment="night run, 50% done",
        log_dir="/scratch/my runs/100%/logs",
        run_dir="/scratch/my runs/r1",
        python="/opt/my venv/bin/python",
        bundle="/scratch/my runs/bundle",
    ),
    "continuation_with_bundle": replace(PLAIN, number=3, after_job="4711", bundle="/scratch/dd/runs/r1/bundle"),
}


@pytest.mark.parametrize("name", CASES)
def test_script(name: str, golden: Golden) -> None:
    golden(GOLDEN / f"{name}.sh", render_batch(CASES[name], AT).unwrap())


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_shells_find_no_fault(shell: str) -> None:
    for path in GOLDEN.iterdir():
        found = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, ""), path.name


@pytest.mark.parametrize("inherited", [None, "", "/lib/a:/lib/b"])
def test_the_script_becomes_the_controller_with_its_folder_first(tmp_path: Path, inherited: str | None) -> None:
    python = tmp_path / "my python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    python.chmod(0o700)
    request = replace(CASES["blanks_in_paths"], python=str(python))
    environ = {"PATH": "/usr/bin:/bin"} | ({} if inherited is None else {"PYTHONPATH": inherited})
    script = render_batch(request, AT).unwrap()
    said = subprocess.run(["sh"], input=script, env=environ, capture_output=True, text=True, check=True)
    path, *argv = said.stdout.splitlines()
    assert path == ":".join(filter(None, ("/scratch/my runs/bundle", inherited)))
    assert argv == ["-P", "-m", "shell.run", "--run-dir", "/scratch/my runs/r1", "--shard-from-env"]


def test_names_of_submissions_differ() -> None:
    names = {job_name(run, number) for run in ("a", "b") for number in (1, 2)}
    assert len(names) == 4
    assert f"#SBATCH --job-name={job_name(PLAIN.run_id, 1)}\n" in render_batch(PLAIN, AT).unwrap()


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("run_id", "a b", "run_id"),
        ("account", "x;y", "account"),
        ("partitions", ("gpu", "a b"), "partition"),
        ("time_limit", "4 hours", "time_limit"),
        ("mem_per_gpu", "80 GB", "mem_per_gpu"),
        ("comment", 'a "b', "comment"),
        ("comment", "a\n#SBATCH --nodes=99", "comment"),
        ("comment", "see #42", "comment"),  # older releases end the word there, quoted or not
        ("log_dir", "logs", "path"),
        ("log_dir", "/a\nrm -rf /", "path"),
        ("run_dir", '/a"b', "path"),
        ("python", "python3", "path"),
        ("bundle", "/a$(id)", "path"),
        ("after_job", "1,2", "after_job"),
        ("excluded", (NodeName("n[1"),), "excluded"),
        ("nodes", 0, "nodes"),
        ("number", 0, "number"),
        ("gpus_per_node", -1, "gpus_per_node"),
        ("cpus_per_node", 0, "cpus_per_node"),
        ("margin_s", 65_536, "margin_s"),
        ("array", ArrayRequest(indices=()), "array"),
        ("array", ArrayRequest(indices=(1, 1)), "array"),
        ("array", ArrayRequest(indices=(-1,)), "array"),
        ("array", ArrayRequest(indices=(1,), max_concurrent=0), "max_concurrent"),
        ("array", ArrayRequest(indices=tuple(range(0, 8_000, 2))), "--array"),
    ],
)
def test_what_a_directive_cannot_say_is_refused(field: str, value: object, path: str) -> None:
    (problem,) = render_batch(replace(PLAIN, **{field: value}), AT).failure()
    assert problem.at.path == path


def test_all_problems_are_reported() -> None:
    request = replace(PLAIN, account="a b", comment="#", nodes=0, log_dir="x")
    assert [problem.at.path for problem in render_batch(request, AT).failure()] == [
        "account",
        "comment",
        "path",
        "nodes",
    ]


@given(st.text(max_size=30), st.text(max_size=30).map("/".__add__))
def test_no_text_escapes_from_its_directive(comment: str, folder: str) -> None:
    rendered = render_batch(replace(PLAIN, comment=comment, log_dir=folder, run_dir=folder), AT)
    if not is_successful(rendered):
        return
    plain = render_batch(replace(PLAIN, comment="x"), AT).unwrap().splitlines()
    lines = rendered.unwrap().split("\n")
    options = [line.partition("=")[0] for line in lines if line.startswith("#SBATCH")]
    assert options == [line.partition("=")[0] for line in plain if line.startswith("#SBATCH")]
    assert f"--comment={comment}" in [shlex.split(line[8:])[0] for line in lines if line.startswith("#SBATCH")]
    assert shlex.split(lines[-2])[-2] == folder
