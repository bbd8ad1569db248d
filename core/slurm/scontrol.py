"""Jobs as ``scontrol show job -o`` and ``-d -o`` print them, one line a job.

Most fields are one word, but a job's name, command, comment and paths may hold anything, also text that looks like
other fields. So a line is read in three parts: up to the name, the words between the name and the command, and the
free texts from the command on.

Source: outputs of 22.05.8 (`tests/facts/slurm/show_job`); later releases add fields, which are passed over.
"""

import re
from datetime import datetime

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.outcome import Outcome, collect, refuse
from core.problem import At, Malformed
from core.slurm.gpus import Gpus, parse_gpus


class ArrayPart(msgspec.Struct, frozen=True, kw_only=True):
    """A task of an array, or the tasks of it that still wait, as ``2-7%2``."""

    job_id: str
    tasks: str


class HetPart(msgspec.Struct, frozen=True, kw_only=True):
    """A component of a heterogeneous job."""

    job_id: str
    offset: int


class ExitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``0:9`` is code 0, signal 9."""

    code: int
    signal: int


class NodeShare(msgspec.Struct, frozen=True, kw_only=True):
    """What the job has on some nodes, all alike; only ``-d`` tells. `nodes` is a host list."""

    nodes: str
    cpu_ids: str
    mem_mib: int
    gpus: Gpus


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One job. Times are local to the cluster, without a zone; None for what is unknown or unlimited."""

    job_id: str
    array: ArrayPart | None
    het: HetPart | None
    name: str
    user: str
    state: str
    reason: str | None
    restarts: int
    requeue: bool
    exit_status: ExitStatus
    run_time_s: int
    time_limit_s: int | None
    submitted: str | None
    started: str | None
    ends: str | None
    partition: str
    node_list: str | None
    batch_host: str | None
    least_nodes: int
    shares: tuple[NodeShare, ...]
    comment: str | None
    work_dir: str
    output: str | None


_LINE = re.compile(
    r"(?P<head>JobId=\d+(?: [A-Za-z]+=\S*)*?) JobName=(?P<name>.*?)(?P<het>(?: HetJobIdSet=\S*)?)"
    r" UserId=(?P<user>\S*?)\(\d+\) GroupId=(?P<words>.*?) Command=(?P<texts>.*)"
)
_WORD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_:/]*)=(\S*)")
_TEXT = re.compile(r" (WorkDir|Comment|StdErr|StdIn|StdOut|AdminComment|SystemComment|Container|Power|TresPerNode)=")
_SHARE = re.compile(r"\sNodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)")
_DURATION = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_NONE = frozenset({"", "(null)", "N/A", "None", "Unknown", "UNLIMITED", "Partition_Limit", "NONE"})


def parse_show_job(text: str) -> Outcome[tuple[JobRecord, ...]]:
    """The jobs, in the order of the output; none for an empty one.

    Errors: `Malformed`, one per line that is not a job.
    """
    lines = [line for line in text.split("\n") if line.strip() and line.strip() != "No jobs in the system"]
    return collect(_job(line, At(source="scontrol show job", line=number)) for number, line in enumerate(lines, 1))


def parse_duration_s(text: str) -> int | None:
    """Seconds of ``1-02:03:04``, ``02:03:04`` or ``03:04``; None for what is no duration, such as UNLIMITED."""
    found = _DURATION.fullmatch(text)
    if not found:
        return None
    days, first, second, third = found.groups()
    clock = int(first) * 60 + int(second) if third is None else int(first) * 3600 + int(second) * 60 + int(third)
    return int(days or 0) * 86_400 + clock


def time_left_s(job: JobRecord) -> int | None:
    """Seconds that the job may still run, counted from when ``scontrol`` was asked; None when there is no limit.

    The end may have been moved since the start, and the limit is shown in whole minutes, so the smaller one counts.
    """
    by_limit = None if job.time_limit_s is None else job.time_limit_s - job.run_time_s
    started, ends = _moment(job.started), _moment(job.ends)
    by_end = None if started is None or ends is None else int((ends - started).total_seconds()) - job.run_time_s
    known = [left for left in (by_limit, by_end) if left is not None]
    return max(0, min(known)) if by_limit is not None else None


def _moment(text: str | None) -> datetime | None:
    try:
        return datetime.strptime(text or "", "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None


def _job(line: str, at: At) -> Outcome[JobRecord]:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return refuse(Malformed(at=at, found=repr(line[:200]), expected="a job: JobId=… JobName=… Command=…"))
    shares = collect(_share(share, at) for share in _SHARE.finditer(found["words"]))
    if not is_successful(shares):
        return refuse(*shares.failure())
    words = dict(_WORD.findall(f"{found['head']} GroupId={_SHARE.sub(' ', found['words'])}"))
    return _record(found, words, shares.unwrap(), at)


def _record(found: re.Match[str], words: dict[str, str], shares: tuple[NodeShare, ...], at: At) -> Outcome[JobRecord]:
    texts = dict(_texts(f" Command={found['texts']}"))
    code, _, signal = words.get("ExitCode", "").partition(":")
    restarts, nodes = words.get("Restarts", "0"), words.get("NumNodes", "0").partition("-")[0]
    state = words.get("JobState", "")
    if not all(number.isdecimal() for number in (code, signal, restarts, nodes)) or not state:
        return refuse(
            Malformed(at=at, found=f"job {words['JobId']}", expected="JobState, ExitCode, NumNodes, Restarts")
        )
    return Success(
        JobRecord(
            job_id=words["JobId"],
            array=_array(words),
            het=_het(words),
            name=found["name"],
            user=found["user"],
            state=state,
            reason=_or_none(words.get("Reason")),
            restarts=int(restarts),
            requeue=words.get("Requeue") == "1",
            exit_status=ExitStatus(code=int(code), signal=int(signal)),
            run_time_s=parse_duration_s(words.get("RunTime", "")) or 0,
            time_limit_s=parse_duration_s(words.get("TimeLimit", "")),
            submitted=_or_none(words.get("SubmitTime")),
            started=_or_none(words.get("StartTime")),
            ends=_or_none(words.get("EndTime")),
            partition=words.get("Partition", ""),
            node_list=_or_none(words.get("NodeList")),
            batch_host=_or_none(words.get("BatchHost")),
            least_nodes=int(nodes),
            shares=shares,
            comment=_or_none(texts.get("Comment")),
            work_dir=texts.get("WorkDir", ""),
            output=_or_none(texts.get("StdOut")),
        )
    )


def _texts(tail: str) -> list[tuple[str, str]]:
    """The free texts behind ``Command=``, each up to the next field that we know. The last one of a name counts."""
    marks = list(_TEXT.finditer(tail))
    ends = [mark.start() for mark in marks[1:]] + [len(tail)]
    return [(mark[1], tail[mark.end() : end].rstrip(" ")) for mark, end in zip(marks, ends, strict=True)]


def _array(words: dict[str, str]) -> ArrayPart | None:
    if "ArrayJobId" not in words:
        return None
    return ArrayPart(job_id=words["ArrayJobId"], tasks=words.get("ArrayTaskId", ""))


def _het(words: dict[str, str]) -> HetPart | None:
    offset = words.get("HetJobOffset", "")
    return HetPart(job_id=words["HetJobId"], offset=int(offset)) if offset.isdecimal() and "HetJobId" in words else None


def _share(found: re.Match[str], at: At) -> Outcome[NodeShare]:
    nodes, cpu_ids, mem, gres = found.groups()
    gpus = parse_gpus(gres, At(source=at.source, path="GRES", line=at.line))
    return gpus.map(lambda held: NodeShare(nodes=nodes, cpu_ids=cpu_ids, mem_mib=int(mem), gpus=held))


def _or_none(text: str | None) -> str | None:
    return None if text is None or text in _NONE else text
