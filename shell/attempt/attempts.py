"""Attempts at a shard: a number that only grows, a folder of its own, two tokens, and how it ended."""

import os
import secrets

import msgspec

from core.layout import AttemptPaths, RunPaths
from shell.store import make_folder, write_atomic


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`attempt.json`: written when an attempt begins, and again when it has ended."""

    run_id: str
    shard: int
    number: int
    job_id: str
    nodes: tuple[str, ...]
    started_unix_ms: int
    ended_unix_ms: int | None = None
    state: str = "RUNNING"
    exit_code: int | None = None
    cause: msgspec.Raw = msgspec.Raw(b"null")
    story: tuple[str, ...] = ()


def new_attempt(run: RunPaths, shard: int) -> tuple[int, AttemptPaths]:
    """The next number and its folder. Two that begin at once get different ones: making the folder decides."""
    make_folder(run.attempts(shard))
    number = 1 + max((int(name) for name in os.listdir(run.attempts(shard)) if name.isdecimal()), default=0)
    while True:
        paths = run.attempt(shard, number)
        try:
            os.mkdir(paths.root, mode=0o700)
        except FileExistsError:
            number += 1
            continue
        for folder in (paths.facts, paths.logs, paths.tasks, paths.output):
            make_folder(folder)
        return number, paths


def write_record(paths: AttemptPaths, record: AttemptRecord) -> None:
    """Replace `attempt.json`."""
    write_atomic(paths.attempt, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def new_token(path: str) -> str:
    """A random bearer token, in a file that only the owner can read."""
    token = secrets.token_urlsafe(32)
    write_atomic(path, token.encode())
    return token
