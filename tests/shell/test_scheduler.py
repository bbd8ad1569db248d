"""Slurm's commands, run with stand-ins: what they are given, and that they always come to an end."""

import os
from pathlib import Path

import pytest

from core.submit.answer import Unclear
from core.submit.records import Job, NotAccepted, Submitted
from core.submit.sight import Blind, Row, Seen
from shell.scheduler import Scheduler, Timeouts
from tests.shell.slurm_stand_in import StandIn

QUICK = Timeouts(sbatch_s=1, query_s=1)
NAME = "data-designer-reviews-1"
SCRIPT = f"#!/bin/sh\n#SBATCH --job-name={NAME}\n"


@pytest.fixture
def slurm(tmp_path: Path, nothing_left: None) -> StandIn:
    return StandIn(tmp_path / "slurm")


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "batch.sh"
    path.write_text(SCRIPT)
    return str(path)


def scheduler(slurm: StandIn, **environ: str) -> Scheduler:
    return Scheduler(str(slurm.bin), {"PATH": os.defpath, **environ}, QUICK)


def test_a_job_is_submitted_held_found_and_released(slurm: StandIn, script: str, tmp_path: Path) -> None:
    cluster = scheduler(slurm)
    assert cluster.submit_held(script, str(tmp_path)) == Submitted(job=Job(job_id="41"), how="answered")
    assert slurm.calls("sbatch") == [f"sbatch --parsable --hold {script}"]
    assert cluster.look(NAME, 1000, 0) == Seen(rows=(Row(job=Job(job_id="41"), index=None, state="PENDING"),))
    assert cluster.look("another", 1000, 0) == Seen(rows=())
    assert cluster.release(Job(job_id="41")) is None
    assert slurm.states() == {"41": "RELEASED"}
    assert cluster.cancel(Job(job_id="41", cluster="tiger")) is None
    assert slurm.states() == {"41": "CANCELLED"}
    assert slurm.calls("scancel") == ["scancel --clusters=tiger 41"]


def test_secrets_travel_in_the_environment_and_options_do_not(slurm: StandIn, script: str, tmp_path: Path) -> None:
    """A secret, the path and the way to Slurm go on; what an outer job left would be options of ours."""
    outer = {"SLURM_JOB_ID": "5", "SBATCH_PARTITION": "debug", "SLURM_NTASKS": "4", "SLURM_CPU_BIND": "quiet"}
    scheduler(slurm, HF_TOKEN="hush", SLURM_CONF="/etc/slurm/slurm.conf", **outer).submit_held(script, str(tmp_path))
    given = slurm.environment()
    assert given["HF_TOKEN"] == "hush"
    assert given["SLURM_CONF"] == "/etc/slurm/slurm.conf"
    assert not outer.keys() & given.keys()
    assert "hush" not in slurm.calls("sbatch")[0]
    assert (slurm.folder / "sbatch.umask").read_text().strip() == "0077"


@pytest.mark.parametrize(
    "behaviour",
    [
        "accept; sleep 60",
        "accept; (sleep 60) & sleep 60",
        "accept; kill -9 $$",
        "accept; echo 'Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1",
        "accept",
        "accept; echo welcome; echo 1200; echo $id",
    ],
)
def test_every_way_to_lose_an_answer(slurm: StandIn, script: str, tmp_path: Path, behaviour: str) -> None:
    slurm.sbatch_does(behaviour)
    assert isinstance(scheduler(slurm).submit_held(script, str(tmp_path)), Unclear)
    assert slurm.states() == {"41": "HELD"}


def test_words_before_the_end_are_kept(slurm: StandIn, script: str, tmp_path: Path) -> None:
    slurm.sbatch_does(
        "echo 'sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying' >&2; sleep 60"
    )
    answer = scheduler(slurm).submit_held(script, str(tmp_path))
    assert isinstance(answer, Unclear)
    assert "within 1 s (Slurm temporarily unable to accept job" in answer.reason


def test_commands_that_are_missing_or_cannot_run(slurm: StandIn, script: str, tmp_path: Path) -> None:
    assert scheduler(slurm).missing() == ()
    (slurm.bin / "sbatch").write_text("#!/nonexistent/interpreter\n")
    answer = scheduler(slurm).submit_held(script, str(tmp_path))
    assert isinstance(answer, NotAccepted)
    slurm.without("sbatch")
    assert scheduler(slurm).missing() == ("sbatch",)
    assert isinstance(scheduler(slurm).submit_held(script, str(tmp_path)), NotAccepted)


def test_a_queue_that_cannot_be_read_is_not_empty(slurm: StandIn) -> None:
    slurm.fails("squeue", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    assert isinstance(scheduler(slurm).look(NAME, 1000, 0), Blind)


def test_formats_of_the_user_do_not_reach_queries(slurm: StandIn) -> None:
    (slurm.bin / "squeue").write_text('#!/bin/sh\nenv | grep -E "SQUEUE|TIME_FORMAT|LC_ALL" >&2; exit 1\n')
    found = scheduler(slurm, SQUEUE_FORMAT="%i", SLURM_TIME_FORMAT="relative").look(NAME, 1000, 0)
    assert found == Blind(reason="LC_ALL=C")


def test_why_a_job_is_still_held(slurm: StandIn) -> None:
    slurm.fails("scontrol", "slurm_suspend error: Access/permission denied")
    assert scheduler(slurm).release(Job(job_id="41")) == "slurm_suspend error: Access/permission denied"
