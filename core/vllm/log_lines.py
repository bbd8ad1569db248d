"""What a line of a server's log says, when, and how loudly: prefixes of vLLM, torch, NCCL and Ray taken off.

Quiet lines (debug, info, warnings) never explain a death: healthy servers write "failed to" and "unable to" there all
day. NCCL's WARN is the exception: it is the only word in which NCCL tells an error.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

Moment: TypeAlias = tuple[int, ...]
"""Month, day, hour, minute, second, as vLLM writes it; the year is not told."""

CAME_UP = "Application startup complete"
"""A server that says this has overcome whatever it complained of before."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROCESS = re.compile(r"(?:\([^()]*\bpid=\d+[^()]*\) ?)+|\[rank\d+\]: ?")
_STAMPED = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\s+"
    r"(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d) \[?[^\]\s]*\] ?"
)
_TORCH = re.compile(
    r"\[(?P<level>[DIWEF])(?P<month>\d{1,2}?)(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)[.\d]* "
    r"[^\]]*\] ?|\[(?P<old>[DIWEF]) [\w.]+:\d+\] ?"
)
_LEVEL = re.compile(r"<?(?P<level>DEBUG|INFO|WARNING|WARN|NOTICE|ERROR|CRITICAL|FATAL)\b>?:?\s", re.IGNORECASE)
_NCCL = re.compile(r".*\bNCCL (?P<level>INFO|TRACE|WARN|VERSION)\b ?")
_PYTHON_WARNING = re.compile(r"\S+\.py:\d+: \w*Warning: ")
_QUIET = frozenset("DEBUG INFO WARNING WARN NOTICE D I W".split())
_TIMES = ("month", "day", "hour", "minute", "second")


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `text` is without prefixes; `at` is that of an earlier line when it has none of its own."""

    at: Moment | None
    quiet: bool
    text: str
    whole: str


def read_log(lines: Sequence[str]) -> Iterator[LogLine]:
    """The lines that say something, in order."""
    at: Moment | None = None
    for raw in lines:
        whole = _COLOUR.sub("", raw).rstrip()
        process = _PROCESS.match(whole)
        line = whole[process.end() :] if process else whole
        stamped = _STAMPED.match(line) or _TORCH.match(line)
        if stamped and stamped.group("month"):
            at = tuple(int(stamped.group(name)) for name in _TIMES)
        if line.strip():
            yield LogLine(at=at, quiet=_is_quiet(line, stamped), text=_text(line, stamped), whole=whole.strip())


def _text(line: str, stamped: re.Match[str] | None) -> str:
    if stamped:
        return line[stamped.end() :]
    told = _NCCL.match(line) or _LEVEL.match(line)
    return line[told.end() :] if told else line


def _is_quiet(line: str, stamped: re.Match[str] | None) -> bool:
    """A frame of a traceback is quiet too: the source text there names errors that were not raised."""
    if stamped:
        groups = stamped.groupdict()
        return (groups["level"] or groups.get("old") or "") in _QUIET or _is_frame(line[stamped.end() :])
    nccl = _NCCL.match(line)
    if nccl:
        return nccl.group("level") != "WARN"
    level = _LEVEL.match(line)
    if level:
        return level.group("level").upper() in _QUIET
    return bool(_PYTHON_WARNING.match(line)) or _is_frame(line)


def _is_frame(text: str) -> bool:
    return text.startswith(("    ", '  File "', "\t"))
