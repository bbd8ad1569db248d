"""``dd-slurm submit`` as users meet it, with stand-ins for Slurm's commands."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from core.submit.state import Patience
from shell import bundle, store
from shell.cli import app
from shell.commands import submit as submit_command
from shell.scheduler import Scheduler, Timeouts
from shell.submission import runs, submissions
from tests.shell.node_world import until
from tests.shell.slurm_stand_in import StandIn

RUN = """schema_version: 1
name: reviews
client: {command: [python, ask.py]}
invocation: {num_records: 10}
array_tasks: {count: 3}
deployments:
  - model_alias: writer
    model: lab/writer
    server:
      environment:
        HF_TOKEN: {type: secret, environment: MY_HF_TOKEN}
"""
IMPATIENT = Patience(look_every_ms=0, quiet_ms=0, give_up_ms=0, releases=1)


class Site:
    """A run file, a profile, and a cluster of stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.slurm = StandIn(folder / "slurm")
        self.run_file, self.profiles, self.workspace = folder / "run.yaml", folder / "profiles.yaml", folder / "ws"
        self.run_file.write_text(RUN)
        commands = {"bin_path": str(self.slurm.bin)}
        site = {"workspace_root": str(self.workspace), "container": "none", "scheduler": commands}
        self.profiles.write_text(json.dumps({"schema_version": 1, "clusters": {"lab": site | {"gpus_per_node": 8}}}))

    def submit(self, target: object = None, *words: str) -> "Said":
        return Said("submit", str(target or self.run_file), "--profile-file", str(self.profiles), *words)

    def runs(self) -> list[Path]:
        return sorted((self.workspace / "runs").iterdir()) if (self.workspace / "runs").exists() else []


class Said:
    """What one call answered."""

    def __init__(self, *words: str) -> None:
        result = CliRunner().invoke(app, list(words))
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("MY_HF_TOKEN", "hush-hush")
    monkeypatch.setattr(submit_command, "PATIENCE", IMPATIENT)
    monkeypatch.setattr(bundle, "write_bundle", lambda folder: f"{folder}/bundle.zip")
    monkeypatch.setattr(
        submit_command, "Scheduler", lambda path: Scheduler(path, timeouts=Timeouts(sbatch_s=1, query_s=5))
    )
    return Site(tmp_path)


def test_submitted(site: Site) -> None:
    said = site.submit()
    (run,) = site.runs()
    assert said.code == 0
    assert said.out.splitlines()[:3] == [
        "submitted job 41",
        f"run folder: {run}",
        f"logs of the job: {run}/submissions/1/logs",
    ]
    assert "scancel 41" in said.out
    assert site.slurm.states() == {"41": "RELEASED"}


def test_json_for_programs_and_no_secret_anywhere(site: Site) -> None:
    said = site.submit(None, "--json")
    (run,) = site.runs()
    answer = json.loads(said.out)
    assert answer.pop("next_steps")
    assert answer == {
        "run_dir": str(run),
        "submission": 1,
        "state": "submitted",
        "job_id": "41",
        "cluster": None,
        "logs": f"{run}/submissions/1/logs",
        "doubt": None,
        "exit_code": 0,
        "message": "submitted job 41",
    }
    assert site.slurm.environment()["MY_HF_TOKEN"] == "hush-hush"
    written = [path for path in run.rglob("*") if path.is_file()]
    assert len(written) == 6
    assert not [path for path in written if b"hush-hush" in path.read_bytes()]


ROWS = [
    ("accept; kill -9 $$", 0, "submitted", "RELEASED"),
    ("accept; sleep 60", 0, "submitted", "RELEASED"),
    ("accept", 0, "submitted", "RELEASED"),
    ("echo 'Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1", 75, "absent", None),
    ("exit 0", 75, "absent", None),
    ("echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1", 69, "not-accepted", None),
    ("echo 'Batch job submission failed: Resource temporarily unavailable' >&2; exit 1", 75, "not-accepted", None),
    ("echo 'Batch job submission failed: Invalid partition name specified' >&2; exit 1", 78, "refused", None),
    ("accept; accept; exit 0", 75, "conflict", "HELD"),
]


@pytest.mark.parametrize(("behaviour", "code", "state", "job"), ROWS)
def test_what_sbatch_answers(site: Site, behaviour: str, code: int, state: str, job: str | None) -> None:
    site.slurm.sbatch_does(behaviour)
    said = site.submit(None, "--json")
    assert (said.code, json.loads(said.out)["state"]) == (code, state)
    assert set(site.slurm.states().values()) == ({job} if job else set())


def test_unclear_is_settled_later_by_the_folder(site: Site) -> None:
    """The queue cannot be read at first; the second call finds the job by its name and does not ask sbatch again."""
    site.slurm.sbatch_does("accept; exit 0")
    site.slurm.fails("squeue", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    said = site.submit()
    (run,) = site.runs()
    assert said.code == 75
    assert "it is not known whether Slurm has the job" in said.err
    assert f"dd-slurm submit {run}" in said.out
    assert site.slurm.states() == {"41": "HELD"}
    site.slurm.fails("squeue", "")
    again = Said("submit", str(run))
    assert again.code == 0
    assert "submitted job 41 (the answer of sbatch was lost; the job was found by its name)" in again.out
    assert len(site.slurm.calls("sbatch")) == 1
    assert site.slurm.states() == {"41": "RELEASED"}


def test_a_job_that_cannot_be_released_is_released_later(site: Site) -> None:
    site.slurm.fails("scontrol", "slurm_suspend error: Unable to contact slurm controller (connect failure)")
    said = site.submit()
    assert said.code == 75
    assert "job 41 is in the queue, but held" in said.err
    site.slurm.fails("scontrol", "")
    assert Said("submit", str(site.runs()[0])).code == 0
    assert site.slurm.states() == {"41": "RELEASED"}


def test_a_refused_run_can_be_submitted_again(site: Site) -> None:
    site.slurm.sbatch_does("echo 'sbatch: error: Batch job submission failed: Invalid qos specification' >&2; exit 1")
    assert site.submit().code == 78
    site.slurm.sbatch_does("accept; echo $id")
    said = Said("submit", str(site.runs()[0]), "--json")
    assert said.code == 0
    assert json.loads(said.out)["submission"] == 2


def test_everything_wrong_at_once_and_nothing_made(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_HF_TOKEN")
    site.slurm.without("sbatch")
    site.slurm.without("squeue")
    site.workspace.write_text("a file where a folder is needed")
    site.run_file.write_text(f'{RUN}submission: {{comment: "a # in it"}}\n')
    said = site.submit(None, "--json")
    assert said.code == 65
    codes = [problem["code"] for problem in json.loads(said.out)["problems"]]
    assert codes == ["command-missing", "command-missing", "secret-not-set", "malformed", "path-unusable"]
    assert "set scheduler.bin_path of the profile" in said.err
    assert not site.slurm.jobs.joinpath("41").exists()


def test_without_a_profile_nothing_is_submitted(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DD_SLURM_PROFILE_FILE", "DATA_DESIGNER_SLURM_PROFILE_FILE"):
        monkeypatch.delenv(name, raising=False)
    said = Said("submit", str(site.run_file))
    assert said.code == 65
    assert "--profile-file" in said.err


def test_a_job_that_would_wait_for_ever_is_submitted_with_a_warning(site: Site) -> None:
    site.slurm.fails("test-only", "allocation failure: Requested node configuration is not available\n")
    said = site.submit()
    assert said.code == 0
    assert "as the cluster stands, it can never start: Requested node configuration is not available" in said.err
    site.slurm.fails("test-only", "allocation failure: Requested nodes are busy\n")
    assert site.submit().err == ""


def full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch/file")


def only_a_receipt_is_too_much(path: str, content: bytes) -> bool:
    return full() if path.endswith("receipt.json") else store.create_once(path, content)


def test_a_full_disk_before_and_after_sbatch(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing starts that is not recorded; when there is room again, the folder settles it."""
    with monkeypatch.context() as patched:
        patched.setattr(runs, "write_atomic", full)
        said = site.submit()
    assert said.code == 65
    assert "cannot be written: No space left on device" in said.err
    assert site.slurm.states() == {}
    with monkeypatch.context() as patched:
        patched.setattr(submissions, "create_once", only_a_receipt_is_too_much)
        said = site.submit()
    assert said.code == 75
    assert "none has started" in said.err
    assert site.slurm.states() == {"41": "HELD"}
    (run,) = [path for path in site.runs() if (path / "run.json").exists()]
    assert Said("submit", str(run)).code == 0
    assert site.slurm.states() == {"41": "RELEASED"}


def test_a_folder_that_is_no_run(site: Site, tmp_path: Path) -> None:
    said = Said("submit", str(tmp_path))
    assert said.code == 65
    assert "this folder is no run" in said.err


def test_records_of_another_version(site: Site) -> None:
    assert site.submit().code == 0
    (run,) = site.runs()
    receipt = run / "submissions" / "1" / "receipt.json"
    receipt.write_text('{"receipt": {"kind": "beamed"}, "written_unix_ms": 1}')
    said = Said("submit", str(run))
    assert said.code == 65
    assert "cannot be read: made by another version of dd-slurm?" in said.err
    (run / "run.json").write_text("{}")
    assert Said("submit", str(run)).code == 65


@pytest.mark.slow
def test_stopped_while_sbatch_is_asked(site: Site, nothing_left: None) -> None:
    """Ctrl-C: sbatch is not left behind, and the folder settles what became of the job."""
    site.slurm.sbatch_does("accept; sleep 60")
    words = ("-m", "shell.cli", "submit", str(site.run_file), "--profile-file", str(site.profiles))
    process = subprocess.Popen((sys.executable, *words), stderr=subprocess.PIPE, text=True)
    until(lambda: site.slurm.states() == {"41": "HELD"})
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    (run,) = site.runs()
    assert process.returncode == 130
    assert f"dd-slurm submit {run}" in err
    assert Said("submit", str(run)).code == 0
    assert site.slurm.states() == {"41": "RELEASED"}
