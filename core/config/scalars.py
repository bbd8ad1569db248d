"""What a bare word in YAML or a number in JSON stands for: the core schema of YAML 1.2, which JSON is a part of.

So ``12:00:00``, ``yes``, ``no``, ``on`` and ``2024-01-01`` are texts, and ``010`` is ten. Numbers are those that every
program can read: 64 bits, finite.

Source: https://yaml.org/spec/1.2.2/#103-core-schema
"""

import math
import re

from core.config.tree import Leaf, Unfit

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST = 400
_BASES = {"0o": 8, "0x": 16}


def plain(text: str, line: int) -> Leaf | Unfit:
    """The value of a word without quotes."""
    if _NULL.fullmatch(text):
        return Leaf(value=None, line=line)
    if _BOOL.fullmatch(text):
        return Leaf(value=text.lower() == "true", line=line)
    if _NOT_FINITE.fullmatch(text):
        return Unfit(found=text, expected="a number that is finite", line=line)
    if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
        return number(text, line)
    return Leaf(value=text, line=line)


def number(text: str, line: int) -> Leaf | Unfit:
    """The value of text that is known to spell a number."""
    found = f"a number of {len(text)} characters" if len(text) > 30 else text
    unfit = Unfit(found=found, expected="a number that fits into 64 bits", line=line)
    if len(text) > _LONGEST:
        return unfit
    if _INT.fullmatch(text):
        whole = int(text[2:], _BASES[text[:2]]) if text[:2] in _BASES else int(text)
        return Leaf(value=whole, line=line) if -(2**63) <= whole < 2**64 else unfit
    value = float(text)
    return Leaf(value=value, line=line) if math.isfinite(value) else unfit
