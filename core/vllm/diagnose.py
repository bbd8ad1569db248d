"""Why a server that has ended, or did not come up in time, probably did: from the words of its logs.

Never asked about a server that lives: words alone do not make it sick. What is named is the root: a cause before a
symptom, a symptom before its echo on other ranks, that before the mere news of an end; among equals the earliest, on
whichever rank it was.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from core.vllm.causes_of_config import ASKED_CAUSES, MODEL_CAUSES
from core.vllm.causes_of_container import CONTAINER_CAUSES
from core.vllm.causes_of_network import ENDS, NETWORK_CAUSES
from core.vllm.causes_of_node import GPU_CAUSES, SYSTEM_CAUSES
from core.vllm.known_cause import WEIGHTS, KnownCause
from core.vllm.log_lines import CAME_UP, LogLine, Moment, read_log

CATALOGUE: tuple[KnownCause, ...] = (
    *CONTAINER_CAUSES,
    *MODEL_CAUSES,
    *ASKED_CAUSES,
    *GPU_CAUSES,
    *SYSTEM_CAUSES,
    *NETWORK_CAUSES,
    *ENDS,
)
"""In this order a line is tried; the first that knows it has it."""

LONGEST_EVIDENCE = 400
LONGEST_LINE = 2000
"""What stands behind it in a line is not looked at: some lines list all models that vLLM knows."""


class RankLog(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one process's log. `code` is how it ended; None when nobody knows, or when we ended it."""

    name: str
    lines: tuple[str, ...]
    code: int | None = None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was probably wrong. `cause` is a stable code, `evidence` the line, `log` whose line it is."""

    cause: str
    title: str
    evidence: str
    hint: str
    log: str = ""


class _Hit(msgspec.Struct, frozen=True, kw_only=True):
    known: KnownCause
    words: tuple[tuple[str, str], ...]
    """For the hint."""
    evidence: str
    log: str
    at: Moment | None


def diagnose(lines: Sequence[str], vllm_version: str | None = None, code: int | None = None) -> Diagnosis | None:
    """The diagnosis of one process; None when nothing in its log is known."""
    return diagnose_ranks((RankLog(name="", lines=tuple(lines), code=code),), vllm_version)


def diagnose_ranks(logs: Sequence[RankLog], vllm_version: str | None = None) -> Diagnosis | None:
    """The diagnosis of a launch from the logs of all its processes."""
    hits = [hit for log in logs for hit in _without_refined(list(_hits(log)))]
    if not hits:
        return None
    late = _late_january([hit.at for hit in hits])
    first = min(hits, key=lambda hit: (WEIGHTS.index(hit.known.weight), _when(hit.at, late)))
    version = f"; this is vLLM {vllm_version}" if vllm_version else ""
    return Diagnosis(
        cause=first.known.code,
        title=first.known.title,
        evidence=first.evidence[:LONGEST_EVIDENCE],
        hint=first.known.hint.format_map({**dict(first.words), "with_version": version}),
        log=first.log,
    )


def _hits(log: RankLog) -> Iterator[_Hit]:
    """What is known of the lines since the server last came up, and of the way it ended."""
    lines = list(read_log(log.lines))
    up = max((index for index, line in enumerate(lines) if CAME_UP in line.whole), default=-1)
    yield from (hit for line in lines[up + 1 :] if not line.quiet for hit in _of_line(line, log.name))
    last = lines[-1] if lines else None
    for known in CATALOGUE:
        if log.code is not None and _signal_of(log.code) in known.exits:
            evidence = f"it ended by signal {-_signal_of(log.code)}"
            yield _Hit(known=known, words=(), evidence=evidence, log=log.name, at=last.at if last else None)


def _without_refined(hits: Sequence[_Hit]) -> Iterator[_Hit]:
    refined = {hit.known.refines for hit in hits}
    yield from (hit for hit in hits if hit.known.code not in refined)


def _signal_of(code: int) -> int:
    """A shell and srun say 128 + n for signal n, Python says -n."""
    return 128 - code if code > 128 else code


def _of_line(line: LogLine, log: str) -> Iterator[_Hit]:
    text = line.text[:LONGEST_LINE]
    for known, patterns in _compiled():
        found = next((match for pattern in patterns if (match := pattern.search(text))), None)
        if found:
            words = tuple((name, word.strip()) for name, word in found.groupdict().items())
            yield _Hit(known=known, words=words, evidence=line.whole, log=log, at=line.at)
            return


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[KnownCause, tuple[re.Pattern[str], ...]], ...]:
    return tuple((known, tuple(map(re.compile, known.patterns))) for known in CATALOGUE)


def _late_january(moments: Sequence[Moment | None]) -> bool:
    """Whether a year ended between the lines: then January is later than December."""
    months = {moment[0] for moment in moments if moment}
    return {1, 12} <= months


def _when(at: Moment | None, late_january: bool) -> Moment:
    """A line without a time stands before the first that has one: vLLM's parser speaks before its logger."""
    if at is None:
        return (0,)
    return (at[0] + 12, *at[1:]) if late_january and at[0] < 6 else at
