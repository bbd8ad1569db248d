"""Texts that a regular expression matches, from Python's own reading of it. Standard library only."""

import importlib
import random
import re
import sys
from typing import Any

_reader: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_PRINTABLE = "".join(map(chr, range(32, 127)))
_CATEGORIES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_NOT_DIGIT": "abcdefgh",
    "CATEGORY_WORD": "abcdefghij0123456789_",
    "CATEGORY_NOT_WORD": "-. ",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": "abcdefghij",
}
_MOST_REPEATS = 8
_TRIES = 50


def from_pattern(pattern: str, chance: random.Random, shortest: int = 0, longest: int | None = None) -> str:
    """A text in which the pattern is found; within the lengths when some tries give one.

    A pattern that Python cannot read (JSON schemas have ECMAScript's) gives an empty text.
    """
    try:
        read = _reader.parse(pattern)
    except (re.error, OverflowError):
        return ""
    text = ""
    for _ in range(_TRIES):
        text = _sequence(read, chance, {})
        fits = shortest <= len(text) <= (len(text) if longest is None else longest)
        if fits and re.search(pattern, text):
            break
    return text


def _sequence(parts: Any, chance: random.Random, groups: dict[int, str]) -> str:
    return "".join(_part(str(operator), value, chance, groups) for operator, value in parts)


def _part(operator: str, value: Any, chance: random.Random, groups: dict[int, str]) -> str:
    if operator == "LITERAL":
        return chr(value)
    if operator == "NOT_LITERAL":
        return chance.choice([letter for letter in "abcxyz" if ord(letter) != value])
    if operator == "ANY":
        return chance.choice("abcdefghij")
    if operator == "IN":
        return chance.choice(_letters(value))
    if operator == "BRANCH":
        return _sequence(chance.choice(value[1]), chance, groups)
    if operator == "SUBPATTERN":
        groups[value[0]] = made = _sequence(value[-1], chance, groups)
        return made
    if operator == "GROUPREF":
        return groups.get(value, "")
    if operator == "ATOMIC_GROUP":
        return _sequence(value, chance, groups)
    if operator.endswith("_REPEAT"):
        least, most, inner = value
        times = chance.randint(least, max(least, min(int(most), least + _MOST_REPEATS)))
        return "".join(_sequence(inner, chance, groups) for _ in range(times))
    return ""  # Anchors and looks around have no letters of their own.


def _letters(parts: Any) -> str:
    negated = str(parts[0][0]) == "NEGATE"
    made = "".join(_some_of(str(operator), value) for operator, value in parts)
    if negated:
        made = "".join(letter for letter in _PRINTABLE if letter not in made)
    return made or "?"


def _some_of(operator: str, value: Any) -> str:
    if operator == "LITERAL":
        return chr(value)
    if operator == "RANGE":
        return "".join(map(chr, range(value[0], min(value[1], value[0] + 128) + 1)))
    return _CATEGORIES.get(str(value), "")
