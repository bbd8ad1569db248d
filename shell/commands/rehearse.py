"""``dd-slurm rehearse``: plan, then the whole run on this machine."""

import os
import sys

import msgspec
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.layout import RunPaths
from core.plan.explain import explain
from core.plan.judge import Rehearsal
from core.plan.process_env import join_path
from core.result import Claim
from shell.attempt.results import Winner
from shell.authored.authoring import read_and_plan
from shell.commands.answer import SIGNALLED, refuse, say_which_profile
from shell.commands.foreground import Foreground
from shell.submission.runs import create_run

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Where `core` and `shell` are."""
REHEARSALS = "dd-slurm-rehearsals"
"""Where rehearsals go, below the current folder: the profile's workspace need not exist on this machine."""


class RehearsedShard(msgspec.Struct, frozen=True, kw_only=True):
    """How one shard ended. `files` are absolute."""

    shard: int
    exit_code: int
    records: int
    files: tuple[str, ...]


class Rehearsed(msgspec.Struct, frozen=True, kw_only=True):
    """What `dd-slurm rehearse --json` prints."""

    run_id: str
    run_dir: str
    shards: tuple[RehearsedShard, ...]


def rehearse_run(
    run_file: str,
    profile_file: str | None,
    cluster: str | None,
    workspace: str | None,
    real_servers: bool,
    as_json: bool,
) -> int:
    """`dd-slurm rehearse`: plan, then every shard, one after the other. The exit code is that of the worst shard.

    With real servers only the nodes are simulated, so they are judged as real ones are: models, vLLM, /dev/shm.
    """
    planned = read_and_plan(run_file, profile_file, cluster, workspace or os.path.join(os.getcwd(), REHEARSALS))
    rehearsal = None if real_servers else Rehearsal(executable=(sys.executable, "-m", "shell.simulate"))
    created = planned.bind(lambda authored: create_run(authored, rehearsal))
    if not is_successful(created):
        return refuse(created.failure(), as_json)
    authored, (run_id, paths) = planned.unwrap(), created.unwrap()
    if not as_json:
        say_which_profile(authored)
        sys.stdout.write(explain(authored.plan) + "\n")
        sys.stdout.flush()
    code, shards = _rehearse_shards(paths, authored.plan.request.array_count, as_json)
    if as_json:
        sys.stdout.write(canonical_json(Rehearsed(run_id=run_id, run_dir=paths.root, shards=shards)).decode())
    else:
        _say_results(paths, shards)
    return code


def _rehearse_shards(paths: RunPaths, count: int, quiet: bool) -> tuple[int, tuple[RehearsedShard, ...]]:
    """One after the other; the highest exit code first. Who stops one by a signal means all."""
    shards: list[RehearsedShard] = []
    with Foreground() as foreground:
        while len(shards) < count and foreground.stopped_by is None:
            shards.append(_rehearse_shard(foreground, paths, len(shards), quiet))
            if shards[-1].exit_code > SIGNALLED:
                break
    stopped = foreground.stopped_by if len(shards) < count else None
    codes = [shard.exit_code for shard in shards]
    return max(codes) if stopped is None else SIGNALLED + stopped, tuple(shards)


def _rehearse_shard(foreground: Foreground, paths: RunPaths, shard: int, quiet: bool) -> RehearsedShard:
    """Begun in the folder of the run, where no module of the user can be taken for one of Python's or ours."""
    argv = (sys.executable, "-m", "shell.run", "--run-dir", paths.root, "--shard", str(shard), "--launcher", "local")
    environ = {**os.environ, "PYTHONPATH": join_path(_PACKAGES, os.environ.get("PYTHONPATH", ""))}
    code = foreground.run(argv, environ, paths.root, sys.stderr if quiet else None)
    claim = _result_of(paths, shard)
    if claim is None:
        return RehearsedShard(shard=shard, exit_code=code, records=0, files=())
    winner, result = claim
    output = os.path.join(paths.attempt(shard, winner.attempt).output)
    files = tuple(f"{output}/{file.path}" for file in result.files if file.rows is not None)
    return RehearsedShard(shard=shard, exit_code=code, records=result.records, files=files)


def _result_of(paths: RunPaths, shard: int) -> tuple[Winner, Claim] | None:
    try:
        with open(paths.winner(shard), "rb") as file:
            winner = msgspec.json.decode(file.read(), type=Winner)
        with open(f"{paths.root}/{winner.result}", "rb") as file:
            return winner, msgspec.json.decode(file.read(), type=Claim)
    except OSError:
        return None


def _say_results(paths: RunPaths, shards: tuple[RehearsedShard, ...]) -> None:
    print(f"\nrehearsed in {paths.root}")
    for shard in shards:
        print(f"  shard {shard.shard}: exit code {shard.exit_code}, {shard.records} records")
        for file in shard.files:
            print(f"    {file}")
    print(f"  {sum(shard.records for shard in shards)} records in all")
