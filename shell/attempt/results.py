"""Looking at what a client left, making it the result of its attempt, and the attempt the winner of its shard."""

import hashlib

import msgspec

from core.client_spec import ClientError
from core.codec import canonical_json
from core.layout import AttemptPaths, RunPaths
from core.plan.shards import Shard
from core.report import report
from core.result import Claim, judge
from shell.client.files import observe
from shell.store import create_once, write_atomic


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """`winner.json`: which attempt's result counts for the shard."""

    attempt: int
    result: str
    sha256: str


def check_result(paths: AttemptPaths, shard: Shard) -> tuple[str, ...]:
    """What speaks against the client's claim, in the client's own words when it has said why it failed.

    When nothing does, `result.json` is there afterwards.
    """
    claim = _read_claim(paths.claim)
    observed = observe(paths.output, [file.path for file in claim.files]) if claim else ()
    problems = [report(problem) for problem in judge(claim, observed, shard.records)]
    if not problems and claim is not None:
        write_atomic(paths.result, canonical_json(claim))
        return ()
    return _client_error(paths.client_error) or tuple(f"{p.message} ({p.hint})" for p in problems)


def _read_claim(path: str) -> Claim | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Claim)
    except (OSError, msgspec.MsgspecError):
        return None


def _client_error(path: str) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            error = msgspec.json.decode(file.read(), type=ClientError)
    except (OSError, msgspec.MsgspecError):
        return ()
    return (f"{error.said} ({error.hint})",)


def declare_winner(run: RunPaths, shard: int, number: int) -> bool:
    """Make this attempt's result that of its shard; False when another attempt was first."""
    result = run.attempt(shard, number).result
    with open(result, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    winner = Winner(attempt=number, result=result.removeprefix(f"{run.root}/"), sha256=digest)
    return create_once(run.winner(shard), canonical_json(winner))
