"""Which environment reaches our batch script, and that secrets change nothing about it."""

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.problem import At
from core.slurm.environ import submit_environment
from core.slurm.sbatch import render_batch
from tests.core.test_slurm_sbatch import PLAIN
from tests.slurm.cluster import Cluster
from tests.slurm.options import PATH
from tests.slurm.steps import variables

_RECORD = """#!/bin/sh
# Stands where our Python would: writes down its environment and what it was called with.
env -0 >"$RECORDS/env"
printf '%s\\n' "$PWD" "$(umask)" "$@" >"$RECORDS/argv"
"""
USER_S_OWN = {"OWN_NAME": "with blanks, commas and 'quotes'", "OWN_LINES": "one\ntwo", "PYTHONPATH": "/lib/own"}
SECRETS = {"HF_TOKEN": "hf_made-up", "OPENAI_API_KEY": "sk-made-up=,;$(id)"}
MISLEADING = {
    "SBATCH_EXPORT": "NONE",
    "SBATCH_PARTITION": "nowhere",
    "SBATCH_GRES": "gpu:1",
    "SLURM_JOB_ID": "999",
    "SLURM_NTASKS": "7",
    "SLURM_CPU_BIND": "map_cpu:0",
    "CUDA_VISIBLE_DEVICES": "3",
}
CHANGING = frozenset("SLURM_JOB_ID SLURM_JOBID SLURM_TASK_PID SLURM_JOB_NAME SLURM_SUBMIT_DIR RECORDS _ PWD".split())


def arrived(cluster: Cluster, environ: dict[str, str], *options: str) -> tuple[dict[str, str], list[str]]:
    """What the program at the end of our script gets, submitted by a person with this environment."""
    folder = cluster.folder_for("environment", "alice")
    python = folder / "python"
    python.write_text(_RECORD)
    python.chmod(0o755)
    request = replace(
        PLAIN,
        account=None,
        partitions=(),
        mem_per_gpu=None,
        log_dir=str(folder),
        run_dir=str(folder),
        python=str(python),
        bundle=str(folder / "bundle"),
    )
    script = render_batch(request, At(source="test")).unwrap()
    given = submit_environment({**environ, "RECORDS": str(folder)})
    job = cluster.submit(script, *options, user="alice", env=given)
    assert cluster.wait(job) == "COMPLETED"
    return variables(folder / "env"), folder.joinpath("argv").read_text().splitlines()


def test_the_same_environment_arrives_with_and_without_secrets(cluster: Cluster) -> None:
    plain, _ = arrived(cluster, USER_S_OWN)
    secret, _ = arrived(cluster, USER_S_OWN | SECRETS)
    assert {name: secret[name] for name in SECRETS} == SECRETS
    assert set(secret) - set(plain) == set(SECRETS)
    assert {name: value for name, value in plain.items() if name not in CHANGING | {"PYTHONPATH"}} == {
        name: value for name, value in secret.items() if name not in CHANGING | {"PYTHONPATH"} | set(SECRETS)
    }


def test_what_the_user_has_arrives_unchanged_and_the_bundle_comes_first(cluster: Cluster) -> None:
    seen, argv = arrived(cluster, USER_S_OWN)
    folder = argv[0]
    assert {name: seen[name] for name in ("OWN_NAME", "OWN_LINES", "PATH")} == {
        "OWN_NAME": USER_S_OWN["OWN_NAME"],
        "OWN_LINES": USER_S_OWN["OWN_LINES"],
        "PATH": PATH,
    }
    assert seen["PYTHONPATH"] == f"{folder}/bundle:/lib/own"
    assert argv[1:] == ["0077", "-P", "-m", "shell.run", "--run-dir", folder, "--shard-from-env"]


def test_what_would_steer_sbatch_is_left_behind(cluster: Cluster) -> None:
    plain, _ = arrived(cluster, USER_S_OWN)
    misled, _ = arrived(cluster, USER_S_OWN | MISLEADING)
    assert set(misled) == set(plain)
    for name in set(plain) - CHANGING - {"PYTHONPATH"}:
        assert misled[name] == plain[name], name


@pytest.mark.parametrize(
    ("export", "kept", "said"),
    [
        ("ALL", {"OWN_NAME", "HF_TOKEN"}, "ALL"),
        ("NONE", set(), "NONE"),
        ("HF_TOKEN", {"HF_TOKEN"}, "HF_TOKEN"),
    ],
)
def test_what_other_policies_give(cluster: Cluster, export: str, kept: set[str], said: str) -> None:
    """Why ours is ALL: the others lose what the user has, and leave behind a word that steers every later srun."""
    folder = cluster.folder_for("policy", "alice")
    script = f"#!/bin/sh\nenv -0 >{folder}/env"
    job = cluster.submit(script, f"--export={export}", user="alice", env=USER_S_OWN | SECRETS)
    assert cluster.wait(job) == "COMPLETED"
    seen = variables(folder / "env")
    assert {name for name in ("OWN_NAME", "HF_TOKEN") if name in seen} == kept
    assert seen.get("SLURM_EXPORT_ENV", "ALL") == said


def test_without_the_environment_steps_do_not_find_their_program(cluster: Cluster) -> None:
    """`--export=NONE` is handed down to every srun, whose tasks then have no PATH; ours say --export=ALL."""
    script = "export PATH\nsrun -N1 -n1 sh -c true; echo $?; srun -N1 -n1 --export=ALL sh -c true; echo $?"
    said = cluster.run_job(script, "--export=NONE").splitlines()
    assert [line for line in said if line.isdecimal()] == ["2", "0"]


def test_the_folder_of_a_job_shadows_no_module(cluster: Cluster) -> None:
    folder = cluster.folder_for("shadow")
    Path(folder, "json.py").write_text("raise SystemExit(41)\n")
    ends = f"{sys.executable} -m json.tool /dev/null; echo $?; {sys.executable} -P -c 'import json'; echo $?"
    assert cluster.run_job(ends, f"--chdir={folder}").split() == ["41", "0"]
