"""The batch script: directives, and one line that becomes our controller.

Nothing of a site or a user enters it unchecked, because a directive ends at a blank, a ``#`` or a quote, in ways that
differ between releases, and one word holds at most 8 KiB. Decisions, for 20.11 to 26.05 alike:

* Environment: ``--export=ALL`` of an environment that the submitter has scrubbed (`core.slurm.environ`). NONE and lists
  of names load a login environment, which is slow and from 25.05 on can leave the job held; NIL is too new. So secrets
  travel by name in the environment, and the same environment arrives with and without them.
* ``--signal=B:USR1@margin``: to the batch shell only, which is our controller because of ``exec``; USR1, so that the
  near end is told apart from ``scancel`` (TERM).
* Paths are absolute: Slurm runs a copy of the script from a spool folder.
* ``-P`` and ``--chdir``: what lies in a working folder must not shadow our modules.

Source: sbatch(1) of 20.11 to 26.05.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from core.outcome import Outcome, unless
from core.problem import At, Malformed
from core.slurm.hostnames import compress_hostlist, in_natural_order, is_node_name
from core.units import NodeName

LONGEST_LABEL = 64
LONGEST_DIRECTIVE = 8_000
"""Older releases copy a word into a buffer of 8 KiB without looking."""


class ArrayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of an array; a retry names the missing ones only."""

    indices: tuple[int, ...]
    max_concurrent: int | None = None


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One submission. `number` counts submissions of the run, so that the name of the job is unique.

    `label` begins that name. `gpus_per_node` counts in mode ``gres`` only; in mode ``visible`` whole nodes are taken.
    The controller is warned `margin_s` before the end of the time limit, 0 for never. `after_job` is a job that must
    have ended.
    """

    run_id: str
    number: int
    label: str = "dd"
    nodes: int
    gpu_request_mode: Literal["gres", "visible"]
    gpus_per_node: int
    cpus_per_node: int | None
    mem_per_gpu: str | None
    account: str | None
    partitions: tuple[str, ...]
    time_limit: str
    comment: str | None
    array: ArrayRequest | None
    excluded: tuple[NodeName, ...]
    after_job: str | None
    requeue: bool
    margin_s: int
    log_dir: str
    run_dir: str
    python: str
    bundle: str | None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TIME = re.compile(r"(?:[0-9]{1,6}-)?[0-9]{1,6}:[0-5][0-9]:[0-5][0-9]")
_MEMORY = re.compile(r"[1-9][0-9]{0,8}[KMGT]?")
_PATH = re.compile(r"/[^\x00-\x1f\x7f\"'\\#`$]*")
_COMMENT = re.compile(r"[^\x00-\x1f\x7f\"'\\#`$]{1,1024}")


def job_name(run_id: str, number: int, label: str = "dd") -> str:
    """What a submission is found by when its answer is lost. Accounting keeps 255 characters of a name."""
    return f"{label[:LONGEST_LABEL]}-{run_id}-{number}"


def render_batch(request: BatchRequest, at: At) -> Outcome[str]:
    """The whole script. Errors: `Malformed` for each field that a directive cannot say; all together."""
    directives = tuple(_directives(request))
    long = (_long(directive, at) for directive in directives if len(directive.encode()) > LONGEST_DIRECTIVE)
    lines = (
        "#!/bin/sh",
        *(f"#SBATCH {directive}" for directive in directives),
        "umask 077",
        *_search_path(request.bundle),
        shlex.join(("exec", request.python, "-P", "-m", "shell.run", "--run-dir", request.run_dir, "--shard-from-env")),
        "",
    )
    return unless((*_problems(request, at), *long), "\n".join(lines))


def _directives(request: BatchRequest) -> Iterator[str]:
    yield f"--job-name={job_name(request.run_id, request.number, request.label)}"
    if request.comment is not None:
        yield _quoted("--comment", request.comment)
    if request.account is not None:
        yield f"--account={request.account}"
    if request.partitions:
        yield f"--partition={','.join(request.partitions)}"
    yield f"--time={request.time_limit}"
    if request.array is not None:
        yield f"--array={_array(request.array)}"
    if request.after_job is not None:
        yield f"--dependency=afterany:{request.after_job}"
    yield from _resources(request)
    yield from _behaviour(request)


def _resources(request: BatchRequest) -> Iterator[str]:
    yield f"--nodes={request.nodes}"
    yield f"--ntasks={request.nodes}"
    yield "--ntasks-per-node=1"
    if request.cpus_per_node is not None:
        yield f"--cpus-per-task={request.cpus_per_node}"
    if request.gpu_request_mode == "visible":
        yield "--exclusive"
        yield "--mem=0"
    elif request.gpus_per_node:
        yield f"--gres=gpu:{request.gpus_per_node}"
        if request.mem_per_gpu is not None:
            yield f"--mem-per-gpu={request.mem_per_gpu}"
    if request.excluded:
        yield f"--exclude={compress_hostlist(in_natural_order(request.excluded))}"


def _behaviour(request: BatchRequest) -> Iterator[str]:
    log = f"{request.log_dir}/slurm-".replace("%", "%%") + ("%A_%a" if request.array else "%j")
    yield _quoted("--chdir", request.run_dir)
    yield _quoted("--output", f"{log}.out")
    yield "--open-mode=append"
    yield "--requeue" if request.requeue else "--no-requeue"
    yield "--export=ALL"
    if request.margin_s:
        yield f"--signal=B:USR1@{request.margin_s}"


def _quoted(option: str, value: str) -> str:
    return f'{option}="{value}"' if " " in value else f"{option}={value}"


def _array(array: ArrayRequest) -> str:
    ranges = compress_hostlist(str(index) for index in sorted(array.indices)).strip("[]")
    limited = array.max_concurrent is not None and array.max_concurrent < len(array.indices)
    return f"{ranges}%{array.max_concurrent}" if limited else ranges


def _search_path(bundle: str | None) -> Iterator[str]:
    """Prefixed, never replaced; an empty entry would mean the current folder."""
    if bundle is not None:
        yield f"export PYTHONPATH={shlex.quote(bundle)}${{PYTHONPATH:+:$PYTHONPATH}}"


def _long(directive: str, at: At) -> Malformed:
    name = directive.partition("=")[0]
    return Malformed(
        at=_at(at, name), found=f"{name} of {len(directive)} characters", expected=f"at most {LONGEST_DIRECTIVE}"
    )


def _problems(request: BatchRequest, at: At) -> Iterator[Malformed]:
    yield from _unfit("run_id", [request.run_id], _NAME, "a name of letters, digits, '.', '_' and '-'", at)
    yield from _unfit("label", [request.label], _NAME, "the beginning of the job's name", at)
    yield from _unfit("account", [request.account], _NAME, "the name of an account", at)
    yield from _unfit("partition", request.partitions, _NAME, "the name of a partition", at)
    yield from _unfit("time_limit", [request.time_limit], _TIME, "a time limit such as 03:55:00", at)
    yield from _unfit("mem_per_gpu", [request.mem_per_gpu], _MEMORY, "an amount of memory such as 80G", at)
    yield from _unfit("after_job", [request.after_job], re.compile("[1-9][0-9]{0,11}"), "a job id", at)
    comment = "one line without quotes, '#', '$', '`' and backslashes"
    yield from _unfit("comment", [request.comment], _COMMENT, comment, at)
    paths = (request.log_dir, request.run_dir, request.python, *([request.bundle] if request.bundle else []))
    yield from _unfit("path", paths, _PATH, "an absolute path without quotes, '#', '$', '`' and backslashes", at)
    wrong = next((name for name in request.excluded if not is_node_name(name)), None)
    if wrong is not None:
        yield Malformed(at=_at(at, "excluded"), found=repr(wrong), expected="the name of a node")
    yield from _number_problems(request, at)


def _unfit(
    field: str, values: Iterable[str | None], form: re.Pattern[str], expected: str, at: At
) -> Iterator[Malformed]:
    for value in values:
        if value is not None and not form.fullmatch(value):
            yield Malformed(at=_at(at, field), found=repr(value), expected=expected)


def _number_problems(request: BatchRequest, at: At) -> Iterator[Malformed]:
    yield from _out_of("nodes", request.nodes, 1, 65_536, at)
    yield from _out_of("number", request.number, 1, 999_999, at)
    yield from _out_of("gpus_per_node", request.gpus_per_node, 0, 1_024, at)
    yield from _out_of("cpus_per_node", 1 if request.cpus_per_node is None else request.cpus_per_node, 1, 65_536, at)
    yield from _out_of("margin_s", request.margin_s, 0, 65_535, at)
    if request.array is not None:
        yield from _array_problems(request.array, at)


def _array_problems(array: ArrayRequest, at: At) -> Iterator[Malformed]:
    yield from _out_of("max_concurrent", 1 if array.max_concurrent is None else array.max_concurrent, 1, 4_000_000, at)
    for index in array.indices:
        yield from _out_of("array", index, 0, 4_000_000, at)
    if not array.indices or _repeat(array.indices):
        found = "an index that stands twice" if array.indices else "no index"
        yield Malformed(at=_at(at, "array"), found=found, expected="at least one index, each once")


def _repeat(indices: Sequence[int]) -> bool:
    return len(set(indices)) < len(indices)


def _out_of(field: str, value: int, low: int, high: int, at: At) -> Iterator[Malformed]:
    if not low <= value <= high:
        yield Malformed(at=_at(at, field), found=str(value), expected=f"a number from {low} to {high}")


def _at(at: At, field: str) -> At:
    return At(source=at.source, path=f"{at.path}.{field}" if at.path else field, line=at.line)
