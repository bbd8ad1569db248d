"""What an answer of sbatch means, judged by what could have happened to the job and not by the exit code alone.

Three things must not be mixed up. *Refused*: asking again is useless. *Not accepted*: the request never got there, or
Slurm said that it takes none now; asking again is harmless. *Unclear*: the request may have arrived although no usable
answer came back; asking again could make a second job. What is not known is unclear.

Source: slurm_errno.c and sbatch.c of 20.11 to 26.05. sbatch repeats a request by itself (up to 15 times, 2 minutes)
where Slurm says that it is full; so a later refusal does not undo an earlier loss, and lost answers count first.
"""

import re
from typing import TypeAlias

import msgspec

from core.submit.records import Job, NotAccepted, Refused, Submitted


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished", tag_field="kind"):
    """A command ended by itself, or by a signal that was not ours (`code` is negative then)."""

    code: int
    stdout: str
    stderr: str


class CutShort(msgspec.Struct, frozen=True, kw_only=True, tag="cut-short", tag_field="kind"):
    """We ended the command: it took too long."""

    after_s: int
    stderr: str


class NotStarted(msgspec.Struct, frozen=True, kw_only=True, tag="not-started", tag_field="kind"):
    """The command could not be started at all."""

    reason: str


CommandAnswer: TypeAlias = Finished | CutShort | NotStarted


class Unclear(msgspec.Struct, frozen=True, kw_only=True, tag="unclear", tag_field="kind"):
    """Slurm may or may not have the job."""

    reason: str


Answer: TypeAlias = Submitted | Refused | NotAccepted | Unclear

_ID = re.compile(r"(?P<id>[1-9][0-9]{0,9})(?:;(?P<cluster>[A-Za-z0-9._-]+))?")
_SENTENCE = re.compile(r"Submitted batch job (?P<id>[1-9][0-9]{0,9})(?: on cluster (?P<cluster>[A-Za-z0-9._-]+))?")
_FAILED = re.compile(r"(?:job submission|allocation) failed: (?P<reason>.*)", re.IGNORECASE)

_LOST = re.compile(
    r"socket timed out|zero bytes were transmitted|unexpected message received|message (?:send|receive) failure"
    r"|\((?:send|receive|shutdown) failure\)|communication shutdown failure|insane message length|connection reset"
    r"|broken pipe|header lengths are longer|not responding",
    re.IGNORECASE,
)
"""The request was on its way, or the answer was."""

_NOT_BELIEVED = re.compile("protocol authentication error|invalid authentication credential", re.IGNORECASE)
_NOT_SIGNED = re.compile("munge encode failed", re.IGNORECASE)
"""One side did not believe the other: which one, and so whether the request counted, shows only when none was made."""

_UNREACHABLE = re.compile(
    r"\(connect failure\)|communication connection failure|connection refused|no route to host|network is unreachable"
    r"|munge encode failed|couldn't find the specified plugin|(?:establish|process) (?:a )?config|dns srv lookup failed"
    r"|backup controller in standby|address(?:es)? not (?:found|available)|unable to resolve|command not found"
    r"|temporary failure in name resolution|connection timed out",
    re.IGNORECASE,
)
"""The request was never handed over."""

_BUSY = re.compile(
    r"try again|resource temporarily unavailable|temporarily unable to accept|job queue full|job creation temporarily"
    r"|requested nodes are busy|i/o error writing script|partition not available|configuration not available now"
    r"|reached .*limit of requests|rpc limit|backoff",
    re.IGNORECASE,
)
"""Slurm answered: not now."""

_REFUSED = re.compile(
    r"invalid|not permitted|permission denied|access denied|node count|not in this partition|processors requested"
    r"|no partition specified|node configuration is not available|violates|presently disabled|dependency problem"
    r"|memory required|licen[cs]e|reservation|unspecified error|too long|bad constraints|not supported|not enabled"
    r"|unable to open file|batch script|unrecognized|unknown option|ambiguous|requires an argument|specification"
    r"|limit exceeded|rejected|denied|incompatible version|protocol version has changed|quota|no such user|expired",
    re.IGNORECASE,
)
"""Slurm, or sbatch before it asked Slurm, said no."""

_KILLED_IN_A_SHELL = 128
_LONGEST_REASON = 500


def read_sbatch_answer(answer: CommandAnswer) -> Answer:
    """The meaning of the whole answer to ``sbatch --parsable``."""
    match answer:
        case NotStarted(reason=reason):
            return NotAccepted(reason=f"sbatch cannot be started: {reason}", cause="unreachable")
        case CutShort(after_s=seconds, stderr=stderr):
            return Unclear(reason=_with(f"sbatch gave no answer within {seconds} s", stderr))
        case Finished(code=0, stdout=stdout, stderr=stderr):
            return _accepted(stdout, stderr)
        case Finished():
            return _failed(answer)


def _accepted(stdout: str, stderr: str) -> Answer:
    """The id is the only line, or the only one that has the form of an id; sites print banners around it."""
    jobs = set(_jobs(stdout))
    if len(jobs) == 1:
        return Submitted(job=jobs.pop(), how="answered")
    found = "several numbers" if jobs else "no job id"
    return Unclear(reason=_with(f"sbatch ended well but gave {found}", stderr))


def _jobs(stdout: str) -> list[Job]:
    lines = [line.strip() for line in stdout.splitlines()]
    found = [_ID.fullmatch(line) or _SENTENCE.fullmatch(line) for line in lines]
    return [Job(job_id=match["id"], cluster=match["cluster"]) for match in found if match]


def _failed(answer: Finished) -> Answer:
    if answer.code < 0 or (answer.code > _KILLED_IN_A_SHELL and not answer.stderr.strip()):
        number = -answer.code if answer.code < 0 else answer.code - _KILLED_IN_A_SHELL
        return Unclear(reason=_with(f"sbatch was ended by signal {number}", answer.stderr))
    if _jobs(answer.stdout):
        return Unclear(reason=_with(f"sbatch gave a job id but ended with {answer.code}", answer.stderr))
    reason = said(answer.stderr) or said(answer.stdout)
    if not reason:
        return Unclear(reason=f"sbatch ended with {answer.code} and said nothing")
    return _judge(answer.stderr or answer.stdout, reason)


def _judge(whole: str, reason: str) -> Answer:
    """The last word of sbatch decides, where it has one; what is said before may be about the first controller."""
    if _LOST.search(whole) or (_NOT_BELIEVED.search(whole) and not _NOT_SIGNED.search(whole)):
        return Unclear(reason=reason)
    last = _FAILED.findall(whole)
    decisive = last[-1] if last else ""
    if _BUSY.search(decisive):
        return NotAccepted(reason=reason, cause="busy")
    if _REFUSED.search(decisive):
        return Refused(reason=reason)
    if _UNREACHABLE.search(whole):
        return NotAccepted(reason=reason, cause="unreachable")
    return Refused(reason=reason) if not last and _REFUSED.search(whole) else Unclear(reason=reason)


def said(stderr: str) -> str:
    """What a Slurm command said, in one line: without its own name, without repeated lines, bounded."""
    lines = (
        re.sub(
            r"^(?:[a-z]+: )?(?:error: |fatal: )?(?:Batch job submission failed: |allocation failure: )?",
            "",
            line.strip(),
        )
        for line in stderr.splitlines()
    )
    kept = dict.fromkeys(line for line in lines if line and not line.startswith('Try "'))
    return "; ".join(kept)[:_LONGEST_REASON]


def _with(reason: str, stderr: str) -> str:
    words = said(stderr)
    return f"{reason} ({words})" if words else reason


def why_not(answer: CommandAnswer) -> str | None:
    """Why a job could not be released or cancelled; None when it was, or has started or ended in the meantime."""
    match answer:
        case Finished(code=0):
            return None
        case Finished(stderr=stderr) if _NO_LONGER_THERE.search(stderr):
            return None
        case Finished(code=code, stderr=stderr):
            return said(stderr) or f"the command ended with {code}"
        case CutShort(after_s=seconds):
            return f"no answer within {seconds} s"
        case NotStarted(reason=reason):
            return reason


_NO_LONGER_THERE = re.compile(
    r"already finished|already completing|no longer pending|not pending|invalid job id", re.IGNORECASE
)
"""Seen with 22.05 for jobs that have ended ("1_0-3: Job has already finished") or are forgotten."""


def doubt(answer: CommandAnswer) -> str | None:
    """Why a job that was accepted could not start on the nodes that there are, by ``sbatch --test-only``.

    Slurm accepts such a job, since nodes may be added, and lets it wait for ever. What only concerns the present, such
    as nodes that are busy and limits of users, is no reason.
    """
    if isinstance(answer, Finished) and answer.code and _NEVER.search(answer.stderr):
        return said(answer.stderr)
    return None


_NEVER = re.compile(
    "node configuration is not available|node count specification|not in this partition|processors requested than",
    re.IGNORECASE,
)
