"""Run another program instead of Data Designer: in a session of its own, which ends with it."""

import contextlib
import os
import shutil
import signal
import subprocess

from core.client_spec import ClientError, ClientSpec, CommandWork, EndpointFile
from core.codec import canonical_json
from core.problem import At, PathUnusable
from core.supervise.story import exit_words
from shell.client.answers import Answers
from shell.client.collect import claim_files, hand_in
from shell.client.environ import token
from shell.client.files import files_below
from shell.client.waiting import wait_for_go
from shell.store import write_atomic

EX_TEMPFAIL = 75
EX_CONFIG = 78
GRACE_S = 10


def run(spec: ClientSpec, work: CommandWork, answers: Answers) -> int:
    """The exit code of the client; that of the program is in the error file."""
    executable = _find(work)
    if executable is None:
        at = At(source="run file", path="client.command[0]")
        answers.refused((PathUnusable(at=at, path=work.command[0], state="not found", wanted="program"),))
        return EX_CONFIG
    answers.prepared()
    if not wait_for_go():
        return EX_TEMPFAIL
    answers.progress(0)
    code = _run_in_session([executable, *work.command[1:]], work.folder, environment(spec))
    if code != 0:
        answers.failed(_failed(work, code))
        return 128 - code if code < 0 else EX_TEMPFAIL
    paths = list(files_below(spec.files.output))
    return hand_in(spec, claim_files(spec, paths, (), resumed=None, made_with=work.command[0]), answers)


def _find(work: CommandWork) -> str | None:
    """A path with a slash is meant from the folder of the run file; a bare name from the PATH."""
    name = work.command[0]
    if "/" in name and work.folder is not None:
        return shutil.which(os.path.join(work.folder, name))
    return shutil.which(name)


def environment(spec: ClientSpec) -> dict[str, str]:
    """What the program is told: OPENAI_* when there is one model, and everything in DD_SLURM_*."""
    table = os.path.join(os.path.dirname(spec.files.prepared), "endpoints.json")
    entries = {
        endpoint.alias: EndpointFile(base_url=endpoint.base_url, model=endpoint.model, token_file=endpoint.token_file)
        for endpoint in spec.endpoints
    }
    write_atomic(table, canonical_json(entries))
    told = {
        "DD_SLURM_ENDPOINTS": table,
        "DD_SLURM_OUTPUT_DIR": spec.files.output,
        "DD_SLURM_NUM_RECORDS": str(spec.shard.records),
        "DD_SLURM_SHARD": str(spec.shard.index),
        "DD_SLURM_SHARD_COUNT": str(spec.shard_count),
        "DD_SLURM_RECORD_OFFSET": str(spec.shard.offset),
    }
    if len(spec.endpoints) == 1:
        told["OPENAI_BASE_URL"] = spec.endpoints[0].base_url
        told["OPENAI_API_KEY"] = token(spec.endpoints[0]) or "none"
    return dict(os.environ) | told


def _run_in_session(argv: list[str], folder: str | None, environ: dict[str, str]) -> int:
    """The exit code, negative for a signal. TERM and INT are passed on; KILL follows after a grace.

    What the program leaves behind is killed by the guard of the client (`shell.worker.guard`).
    """
    asked: list[int] = []
    leader: list[int] = []

    def pass_on(number: int, _: object) -> None:
        """Installed before the program starts, so that a signal in between is kept for it and not deadly for us."""
        asked.append(signal.SIGKILL if number == signal.SIGALRM else number)
        signal.alarm(GRACE_S)
        for pid in leader:
            _signal(pid, asked[-1])

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, pass_on)
    child = subprocess.Popen(argv, cwd=folder, env=environ, stdin=subprocess.DEVNULL, start_new_session=True)
    leader.append(child.pid)
    for kept in tuple(asked):
        _signal(child.pid, kept)
    return child.wait()


def _signal(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def _failed(work: CommandWork, code: int) -> ClientError:
    how = f"was {exit_words(code)}" if code < 0 else f"ended with {exit_words(code)}"
    return ClientError(
        error=None,
        message=f"{work.command[0]!r} {how}",
        hint="look at the client's log; its own output is there",
        causes=(),
        exit_code=75,
    )
