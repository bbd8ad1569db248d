"""Slurm's commands, run with a time limit and a scrubbed environment. What they say is read in core."""

import contextlib
import datetime
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from core.record.rows import ACCOUNTING_FIELDS as STARTS
from core.record.rows import QUEUE_FORMAT as TASKS
from core.slurm.environ import query_environment, submit_environment
from core.submit.answer import (
    Answer,
    CommandAnswer,
    CutShort,
    Finished,
    NotStarted,
    doubt,
    read_sbatch_answer,
    why_not,
)
from core.submit.records import Job
from core.submit.sight import ACCOUNTING_FIELDS, QUEUE_FORMAT, Sight, look

COMMANDS = ("sbatch", "squeue", "scontrol", "scancel")
"""What submission cannot do without; `sacct` may be missing."""
ACCOUNTED_DAYS_BEFORE = 2
"""How long before the submission accounting is asked, since clocks and time zones of hosts differ."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. sbatch repeats a request by itself for two minutes when Slurm says that it is full."""

    sbatch_s: int = 180
    query_s: int = 60


class Scheduler:
    """The cluster as this process reaches it. `bin_path` is the folder of the commands, None for the PATH."""

    def __init__(
        self, bin_path: str | None, environ: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> None:
        self._bin_path = bin_path
        self._environ = dict(os.environ if environ is None else environ)
        self._timeouts = timeouts or Timeouts()

    def missing(self) -> tuple[str, ...]:
        """Commands that are not there."""
        return tuple(name for name in COMMANDS if self._find(name) is None)

    def submit_held(self, script: str, folder: str) -> Answer:
        """Call sbatch. Secrets reach the job through the environment of this process, by name."""
        argv = ("sbatch", "--parsable", "--hold", script)
        answer = self._run(argv, submit_environment(self._environ), self._timeouts.sbatch_s, folder)
        return read_sbatch_answer(answer)

    def doubt(self, script: str, folder: str) -> str | None:
        """Why a job that was accepted could never start on the nodes that there are; None when it could."""
        argv = ("sbatch", "--test-only", script)
        return doubt(self._run(argv, submit_environment(self._environ), self._timeouts.query_s, folder))

    def srun_help(self) -> str | None:
        """The options of srun with those of plug-ins; None where it does not say, as on hosts without it."""
        answer = self._query("srun", "--help")
        return answer.stdout if isinstance(answer, Finished) and answer.code == 0 else None

    def look(self, job_name: str, user_id: int, since_unix_ms: int) -> Sight:
        """Jobs of this name and user, in the queue and in the accounting."""
        who = (f"--name={job_name}", f"--user={user_id}")
        queue = self._query("squeue", "--noheader", "--array", *who, f"--format={QUEUE_FORMAT}")
        fields = ("--noheader", "--allocations", "--parsable2", f"--format={ACCOUNTING_FIELDS}")
        ended = self._query("sacct", *fields, *who, f"--starttime={_days_before(since_unix_ms)}")
        return look(queue, ended, job_name)

    def release(self, job: Job) -> str | None:
        """Let a held job go; or why it is still held."""
        return why_not(self._query("scontrol", *_cluster(job), "release", job.job_id))

    def cancel(self, job: Job) -> str | None:
        """Cancel a job; or why it may still be there."""
        return why_not(self._query("scancel", *_cluster(job), job.job_id))

    def queue(self, ids: Sequence[str], cluster: str | None) -> CommandAnswer:
        """Jobs of these ids that wait, run, or have ended a few minutes ago."""
        form = ("--noheader", "--array", "--states=all", f"--format={TASKS}")
        return self._query("squeue", *_cluster(Job(job_id="", cluster=cluster)), *form, f"--jobs={','.join(ids)}")

    def accounting(self, ids: Sequence[str], cluster: str | None, since_unix_ms: int) -> CommandAnswer:
        """Every start of jobs of these ids."""
        fields = ("--noheader", "--allocations", "--parsable2", "--duplicates", f"--format={STARTS}")
        since = f"--starttime={_days_before(since_unix_ms)}"
        where = _cluster(Job(job_id="", cluster=cluster))
        return self._query("sacct", *where, *fields, f"--jobs={','.join(ids)}", since)

    def _query(self, *argv: str) -> CommandAnswer:
        return self._run(argv, query_environment(self._environ), self._timeouts.query_s, "/")

    def _find(self, name: str) -> str | None:
        return shutil.which(name, path=self._bin_path or self._environ.get("PATH", os.defpath))

    def _run(self, argv: Sequence[str], environ: Mapping[str, str], seconds: int, folder: str) -> CommandAnswer:
        """In a session of its own: Ctrl-C at the terminal must not end sbatch between request and answer."""
        program = self._find(argv[0])
        if program is None:
            return NotStarted(reason=f"there is no command {argv[0]!r} in {self._bin_path or 'the PATH'}")
        try:
            process = subprocess.Popen(
                (program, *argv[1:]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environ),
                cwd=folder,
                umask=0o077,
                start_new_session=True,
            )
        except OSError as error:
            return NotStarted(reason=f"{program}: {error.strerror}")
        return _await(process, seconds)


def _await(process: subprocess.Popen[bytes], seconds: int) -> CommandAnswer:
    try:
        stdout, stderr = process.communicate(timeout=seconds)
        return Finished(code=process.returncode, stdout=_text(stdout), stderr=_text(stderr))
    except subprocess.TimeoutExpired:
        return CutShort(after_s=seconds, stderr=_text(_end(process)))
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """Kill the command with all its children; what it had said. Children that moved away may keep its output open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=1)[1]
    except subprocess.TimeoutExpired as late:
        return late.stderr or b""
    finally:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def _cluster(job: Job) -> tuple[str, ...]:
    return (f"--clusters={job.cluster}",) if job.cluster else ()


def _days_before(unix_ms: int) -> str:
    then = datetime.datetime.fromtimestamp(unix_ms / 1000, tz=datetime.timezone.utc)
    return (then - datetime.timedelta(days=ACCOUNTED_DAYS_BEFORE)).strftime("%Y-%m-%d")
