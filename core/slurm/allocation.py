"""What Slurm granted, from the environment of the batch script and the outputs of ``scontrol``.

What the environment says about GPUs is true of the node where the script runs and of no other, so it is believed of
that one only. All that is known of the others comes from ``scontrol show job -d``, or from the nodes themselves later.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.outcome import Outcome, both, problems_of, refuse, unless
from core.problem import At, Malformed, NodeCountMismatch, NotInAllocation, NotUnique
from core.slurm.gpus import Gpus, parse_gpus
from core.slurm.hostnames import MOST_HOSTS, expand_hostlist, is_node_name
from core.slurm.scontrol import JobRecord, parse_show_job, time_left_s
from core.slurm.versions import SlurmVersion, parse_slurm_version
from core.units import NodeName

_SOURCE = "the environment of the job"
_COUNTS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")


class ArrayTask(msgspec.Struct, frozen=True, kw_only=True):
    """Which task of which array this job is."""

    job_id: str
    task_id: int


class GrantedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `gpus` is None where nobody said what is granted there."""

    name: NodeName
    cpus: int | None
    gpus: Gpus | None


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """What this job may use. `nodes` are in Slurm's order and spelling.

    `end_time_s` is in seconds since 1970; `time_left_s` counts from the moment when ``scontrol`` was asked.
    """

    job_id: str
    array: ArrayTask | None
    restart_count: int
    nodes: tuple[GrantedNode, ...]
    end_time_s: int | None
    time_left_s: int | None
    slurm_version: SlurmVersion | None
    cluster: str | None

    @property
    def hosts(self) -> tuple[NodeName, ...]:
        """The names alone."""
        return tuple(node.name for node in self.nodes)


class _Basics(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    array: ArrayTask | None
    restart_count: int
    end_time_s: int | None
    cluster: str | None


class _Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """What the outputs of commands say beside the list of hosts."""

    job: JobRecord | None
    version: SlurmVersion | None


def parse_allocation(
    environ: Mapping[str, str],
    hostnames_output: str | None = None,
    show_job_output: str | None = None,
    version_output: str | None = None,
) -> Outcome[Allocation]:
    """The grant. Outputs are of ``scontrol show hostnames``, ``scontrol show job -d -o`` and ``srun --version``.

    Without `hostnames_output` the host list is expanded here. Errors: `NotInAllocation`, `Malformed`, `NotUnique`,
    `NodeCountMismatch`, `VersionUnfit`; those of independent inputs together.
    """
    named = both(_basics(environ), _hosts(environ, hostnames_output))
    told = _spoken(environ, show_job_output, version_output)
    if not (is_successful(named) and is_successful(told)):
        return refuse(*problems_of(named), *problems_of(told))
    (basics, hosts), spoken = named.unwrap(), told.unwrap()
    return both(_cpus(environ, hosts), _gpus(environ, hosts, spoken.job)).map(
        lambda shares: Allocation(
            job_id=basics.job_id,
            array=basics.array,
            restart_count=basics.restart_count,
            nodes=tuple(
                GrantedNode(name=name, cpus=cpus, gpus=gpus) for name, cpus, gpus in zip(hosts, *shares, strict=True)
            ),
            end_time_s=basics.end_time_s,
            time_left_s=None if spoken.job is None else time_left_s(spoken.job),
            slurm_version=spoken.version,
            cluster=basics.cluster,
        )
    )


def parse_counts(text: str, at: At) -> Outcome[tuple[int, ...]]:
    """``8(x2),4`` as ``8 8 4``. Errors: `Malformed`."""
    parts = tuple(map(_COUNTS.fullmatch, text.split(",")))
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(parts) or sum(int(part[2] or 1) for part in found) > MOST_HOSTS:
        return refuse(Malformed(at=at, found=repr(text[:200]), expected="counts per node such as 8(x2),4"))
    return Success(tuple(count for part in found for count in (int(part[1]),) * int(part[2] or 1)))


def _at(name: str) -> At:
    return At(source=_SOURCE, path=name)


def _given(environ: Mapping[str, str], name: str) -> str | None:
    """The value, unless it is empty or Slurm's word for nothing."""
    value = environ.get(name, "").strip()
    return None if value in ("", "(null)", "None assigned") else value


def _number(environ: Mapping[str, str], name: str) -> Outcome[int | None]:
    value = _given(environ, name)
    if value is not None and not re.fullmatch("[0-9]{1,12}", value):
        return refuse(Malformed(at=_at(name), found=repr(value[:80]), expected="a number"))
    return Success(None if value is None else int(value))


def _basics(environ: Mapping[str, str]) -> Outcome[_Basics]:
    job_id = _given(environ, "SLURM_JOB_ID")
    missing = () if job_id is not None else (NotInAllocation(at=_at("SLURM_JOB_ID")),)
    names = ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME")
    numbers = [_number(environ, name) for name in names]
    wrong = [problem for number in numbers for problem in problems_of(number)]
    if missing or wrong or job_id is None:
        return refuse(*missing, *wrong)
    _, array_job, task, restarts, end = (number.unwrap() for number in numbers)
    return Success(
        _Basics(
            job_id=job_id,
            array=None if array_job is None or task is None else ArrayTask(job_id=str(array_job), task_id=task),
            restart_count=restarts or 0,
            end_time_s=end,
            cluster=_given(environ, "SLURM_CLUSTER_NAME"),
        )
    )


def _hosts(environ: Mapping[str, str], output: str | None) -> Outcome[tuple[NodeName, ...]]:
    """``scontrol show hostnames`` exits 0 whatever it is given, so its names are checked against list and count."""
    variable = "SLURM_JOB_NODELIST" if _given(environ, "SLURM_JOB_NODELIST") else "SLURM_NODELIST"
    text = _given(environ, variable)
    wanted = _number(environ, "SLURM_JOB_NUM_NODES")
    if text is None or not is_successful(wanted):
        nothing = () if text is not None else (NotInAllocation(at=_at("SLURM_JOB_NODELIST")),)
        return refuse(*nothing, *problems_of(wanted))
    own = expand_hostlist(text, _at(variable))
    if output is None and not is_successful(own):
        return own
    names = own.unwrap() if output is None else tuple(map(NodeName, output.split("\n")[: MOST_HOSTS + 1]))
    names = tuple(NodeName(name.rstrip("\r")) for name in names if name.strip())
    expected = own.unwrap() if is_successful(own) else names
    return unless(_host_problems(names, expected, wanted.unwrap(), text), names)


def _host_problems(
    names: Sequence[NodeName], expected: Sequence[NodeName], wanted: int | None, text: str
) -> Iterator[Malformed | NotUnique | NodeCountMismatch]:
    at = At(source="scontrol show hostnames")
    wrong = next((name for name in names if not is_node_name(name)), None)
    if wrong is not None:
        yield Malformed(at=at, found=repr(wrong), expected="the name of a node")
    elif not names or tuple(names) != tuple(expected):
        found = f"{len(names)} names ({', '.join(names[:3])}…)" if names else "no names"
        yield Malformed(at=at, found=found, expected=f"the nodes of {text[:200]!r}")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        yield NotUnique(at=_at("SLURM_JOB_NODELIST"), what="node", value=twice, first_path="SLURM_JOB_NODELIST")
    if names and wanted is not None and wanted != len(names):
        yield NodeCountMismatch(at=_at("SLURM_JOB_NUM_NODES"), planned=wanted, granted=len(names))


def _spoken(environ: Mapping[str, str], show_job: str | None, version: str | None) -> Outcome[_Spoken]:
    at = At(source="srun --version")
    parsed: Outcome[SlurmVersion | None] = Success(None) if version is None else parse_slurm_version(version, at)
    job_id = environ.get("SLURM_JOB_ID", "")
    jobs = parse_show_job(show_job or "")
    return both(jobs, parsed).map(
        lambda told: _Spoken(job=next((job for job in told[0] if job.job_id == job_id), None), version=told[1])
    )


def _cpus(environ: Mapping[str, str], hosts: Sequence[NodeName]) -> Outcome[tuple[int | None, ...]]:
    text = _given(environ, "SLURM_JOB_CPUS_PER_NODE")
    if text is None:
        return Success((None,) * len(hosts))
    counts = parse_counts(text, _at("SLURM_JOB_CPUS_PER_NODE"))
    if is_successful(counts) and len(counts.unwrap()) != len(hosts):
        mismatch = NodeCountMismatch(
            at=_at("SLURM_JOB_CPUS_PER_NODE"), planned=len(counts.unwrap()), granted=len(hosts)
        )
        return refuse(mismatch)
    return counts.map(lambda values: (*values,))


def _gpus(
    environ: Mapping[str, str], hosts: Sequence[NodeName], job: JobRecord | None
) -> Outcome[tuple[Gpus | None, ...]]:
    """Per host: the job's detail lines; else, for the script's own node only, the variables."""
    told = dict(_shares(job))
    here = _given(environ, "SLURMD_NODENAME") if "SLURM_STEP_ID" not in environ else None
    name = "SLURM_JOB_GPUS" if _given(environ, "SLURM_JOB_GPUS") else "SLURM_GPUS_ON_NODE"
    text = _given(environ, name)
    if here not in hosts or here in told or text is None:
        return Success(tuple(told.get(host) for host in hosts))
    own = parse_gpus(text if name == "SLURM_JOB_GPUS" else f"gpu:{text}", _at(name))
    return own.map(lambda gpus: tuple(gpus if host == here else told.get(host) for host in hosts))


def _shares(job: JobRecord | None) -> Iterator[tuple[str, Gpus]]:
    for share in () if job is None else job.shares:
        names = expand_hostlist(share.nodes, At(source="scontrol show job", path="Nodes"))
        yield from ((name, share.gpus) for name in (names.unwrap() if is_successful(names) else ()))
