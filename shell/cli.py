"""``dd-slurm``: ask core, print the answer. Exit codes are those of sysexits.h; problems go to stderr."""

import os
import sys
from typing import Annotated

import typer

from shell.streams import settle_streams

EX_USAGE, EX_NOINPUT, CLICK_USAGE = 64, 66, 2

app = typer.Typer(
    name="dd-slurm",
    help="Run NeMo Data Designer with its own vLLM servers inside Slurm allocations.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

RunFile = Annotated[str, typer.Argument(metavar="RUN.YAML", help="the run file")]
ProfileFile = Annotated[str | None, typer.Option(help="the catalog of cluster profiles")]
Cluster = Annotated[str | None, typer.Option(help="which cluster of the catalog")]
Json = Annotated[bool, typer.Option("--json", help="print JSON for programs")]
Workspace = Annotated[str | None, typer.Option(help="where runs live, in place of the profile's workspace_root")]


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"dd-slurm {version('dd-slurm')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Run NeMo Data Designer with its own vLLM servers inside Slurm allocations."""


@app.command()
def plan(run_file: RunFile, profile_file: ProfileFile = None, cluster: Cluster = None, as_json: Json = False) -> None:
    """Show what would be asked of Slurm and what would run where. Changes nothing."""
    from shell.commands.plan import show_plan

    raise typer.Exit(show_plan(run_file, profile_file, cluster, as_json))


@app.command()
def rehearse(
    run_file: RunFile,
    profile_file: ProfileFile = None,
    cluster: Cluster = None,
    workspace: Workspace = None,
    real_servers: Annotated[
        bool, typer.Option("--real-servers", help="start the servers of the run file, in place of simulated ones")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run everything on this machine, with simulated nodes and servers: before anybody pays for GPUs."""
    from shell.commands.rehearse import rehearse_run

    raise typer.Exit(rehearse_run(run_file, profile_file, cluster, workspace, real_servers, as_json))


@app.command()
def submit(
    target: Annotated[str, typer.Argument(metavar="RUN", help="a run file; or the folder of a run, to take it up")],
    profile_file: ProfileFile = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Make a run folder and submit it to Slurm. Of one submission at most one job ever starts."""
    from shell.commands.submit import submit as submit_run

    raise typer.Exit(submit_run(target, profile_file, cluster, as_json))


RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="the folder of a run")]


@app.command()
def status(
    run: RunFolder,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="look again until nothing changes by itself")] = False,
) -> None:
    """Tell where every shard of a run stands, why, and what to do next."""
    from shell.commands.status import status as tell_status

    raise typer.Exit(tell_status(run, as_json, watch))


@app.command()
def cancel(
    run: RunFolder,
    wait: Annotated[float, typer.Option(help="seconds to wait until all is gone")] = 180,
    as_json: Json = False,
) -> None:
    """End all jobs of a run, by their ids, and wait until they are gone."""
    from shell.commands.retry import cancel as cancel_jobs

    raise typer.Exit(cancel_jobs(run, wait, as_json))


@app.command()
def retry(
    run: RunFolder,
    shard: Annotated[list[int] | None, typer.Option(help="only this one; may be repeated")] = None,
    resume: Annotated[str | None, typer.Option(help="never, if_possible or always; else as planned")] = None,
    time_limit: Annotated[str | None, typer.Option(help="in place of the planned one, as 08:00:00")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be submitted")] = False,
    as_json: Json = False,
) -> None:
    """Submit the shards that have no result and are not running, in one new job."""
    import msgspec

    from core.record.retry import RetryAsked
    from shell.commands.retry import retry as retry_shards

    try:
        asked = msgspec.convert({"shards": shard or None, "resume": resume, "time_limit": time_limit}, RetryAsked)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(retry_shards(run, asked, dry_run, as_json))


@app.command()
def merge(
    run: RunFolder,
    output: Annotated[str, typer.Option(help="a new folder for the dataset")],
    partial: Annotated[bool, typer.Option("--partial", help="merge what there is, though shards are missing")] = False,
    as_json: Json = False,
) -> None:
    """Check the results of all shards and write them as one dataset."""
    from shell.commands.merge import merge as merge_shards

    raise typer.Exit(merge_shards(run, output, partial, as_json))


def _has_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def main() -> None:
    """The command."""
    settle_streams()
    if not _has_folder():
        print("the current folder is gone: change to another one", file=sys.stderr)
        raise SystemExit(EX_NOINPUT)
    try:
        app(prog_name="dd-slurm", args=sys.argv[1:])
    except SystemExit as ending:
        raise SystemExit(EX_USAGE if ending.code == CLICK_USAGE else ending.code) from None


if __name__ == "__main__":
    main()
