"""Names of nodes: lists in Slurm's compressed spelling, and when two names mean the same host.

Slurm compares names of nodes exactly, case included; DNS does not, and a host may call itself by its short or its full
name. `NodeName` is always Slurm's spelling; `same_host` is for DNS only.

Source: outputs of ``scontrol show hostnames`` and ``show hostlist`` of 22.05.8 (`tests/facts/slurm/hostlists.tsv`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from returns.result import Success

from core.outcome import Outcome, refuse
from core.problem import At, Malformed
from core.units import NodeName

MOST_HOSTS = 65_536
"""Slurm refuses longer ranges; we refuse longer lists."""

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_RANGES = r"\[[0-9]{1,18}(?:-[0-9]{1,18})?(?:,[0-9]{1,18}(?:-[0-9]{1,18})?)*\]"
_ITEM = rf"[A-Za-z0-9._-]*{_RANGES}(?:[A-Za-z0-9._-]*{_RANGES})?|[A-Za-z0-9._-]+"
_LIST = re.compile(rf"(?:{_ITEM})(?:,(?:{_ITEM}))*")
_TRAILING_NUMBER = re.compile(r"(.*?)([0-9]{1,15})")


def is_node_name(text: str) -> bool:
    """Whether `text` can be the name of a node: no bracket, blank, slash or comma."""
    return _NAME.fullmatch(text) is not None


def same_host(one: str, other: str) -> bool:
    """Whether DNS would take both for one host: case does not matter, and a short name equals any full one of it."""
    first, second = one.rstrip(".").casefold(), other.rstrip(".").casefold()
    if first == second or ("." in first and "." in second):
        return first == second
    return first.partition(".")[0] == second.partition(".")[0] and not first.isdecimal() and not second.isdecimal()


def expand_hostlist(text: str, at: At) -> Outcome[tuple[NodeName, ...]]:
    """One name per node, in Slurm's order and with its zero padding; at least one. Duplicates are kept.

    ``gpu-a[07-08,11],login1`` gives ``gpu-a07 gpu-a08 gpu-a11 login1``. At most two ranges per name, and none followed
    by text: 22.05 refuses a suffix and gives three ranges in an order of its own, so those are left to ``scontrol``.

    Errors: `Malformed`.
    """
    items = re.findall(_ITEM, text) if _LIST.fullmatch(text) else []
    if not items or sum(map(_size, items)) > MOST_HOSTS:
        return refuse(Malformed(at=at, found=repr(text[:200]), expected="a Slurm host list such as gpu[01-04,07]"))
    names = tuple(chain.from_iterable(map(_expand, items)))
    wrong = next((name for name in names if not is_node_name(name)), None)
    if wrong is not None:
        return refuse(Malformed(at=at, found=repr(wrong), expected="the name of a node"))
    return Success(tuple(map(NodeName, names)))


def compress_hostlist(names: Iterable[str]) -> str:
    """The short spelling of a list, order and duplicates kept: ``c4 c3 n09 n10`` gives ``c[4,3],n[09-10]``."""
    grouped = groupby(map(_split, names), key=lambda parts: (parts[0], parts[1] is None))
    return ",".join(chain.from_iterable(_fold(prefix, [n for _, n in group]) for (prefix, _), group in grouped))


def in_natural_order(names: Iterable[NodeName]) -> tuple[NodeName, ...]:
    """Sorted so that the compressed list is short: by text, then by the last number."""
    return tuple(sorted(names, key=lambda name: _sort_key(name)))


def _sort_key(name: str) -> tuple[str, int, str]:
    prefix, number = _split(name)
    return (prefix, -1, "") if number is None else (prefix, int(number), number)


def _ranges(item: str) -> list[list[tuple[str, str]]]:
    """The ranges of each bracket as (first, last), both as written."""
    brackets = re.findall(r"\[([^\]]*)\]", item)
    pairs = ([part.partition("-") for part in bracket.split(",")] for bracket in brackets)
    return [[(first, last or first) for first, _, last in bracket] for bracket in pairs]


def _size(item: str) -> int:
    """How many names it stands for; more than allowed when a range descends."""
    size = 1
    for bracket in _ranges(item):
        counts = [int(last) - int(first) + 1 for first, last in bracket]
        size *= sum(counts) if min(counts) > 0 else MOST_HOSTS + 1
    return size


def _expand(item: str) -> Iterator[str]:
    texts = re.split(r"\[[^\]]*\]", item)
    numbers = [list(_spell(bracket)) for bracket in _ranges(item)]
    if not numbers:
        yield item
    elif len(numbers) == 1:
        yield from (f"{texts[0]}{number}" for number in numbers[0])
    else:
        yield from (f"{texts[0]}{row}{texts[1]}{column}" for row in numbers[0] for column in numbers[1])


def _spell(bracket: Sequence[tuple[str, str]]) -> Iterator[str]:
    for first, last in bracket:
        yield from (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))


def _split(name: str) -> tuple[str, str | None]:
    """Text and trailing number; None for a name that does not end in a number."""
    found = _TRAILING_NUMBER.fullmatch(name)
    return (found[1], found[2]) if found else (name, None)


def _fold(prefix: str, numbers: Sequence[str | None]) -> Iterator[str]:
    runs: list[tuple[str, str]] = []
    for number in numbers:
        if number is None:
            yield prefix
        elif runs and number == f"{int(runs[-1][1]) + 1:0{len(runs[-1][0])}d}":
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    spelled = [first if first == last else f"{first}-{last}" for first, last in runs]
    if runs and (len(runs) > 1 or runs[0][0] != runs[0][1]):
        yield f"{prefix}[{','.join(spelled)}]"
    else:
        yield from (f"{prefix}{number}" for number in spelled)
