"""Instances of a JSON schema: valid, plausible, and the same for the same seed. Standard library only.

For the keywords that structured output uses. ``not``, ``if`` and ``patternProperties`` are not looked at.
"""

import math
import random
from collections.abc import Mapping
from typing import Any

from shell.simulate.pattern import from_pattern

_WORDS = (
    "calm river stone bright garden small engine quiet market green window early train blue letter warm coffee long "
    "story clear answer good reason simple test strong coat new lamp"
).split()
_FORMATS = {
    "date-time": "2026-05-04T10:20:30Z",
    "date": "2026-05-04",
    "time": "10:20:30Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/page",
    "url": "https://example.com/page",
    "uuid": "12345678-1234-4678-8234-567812345678",
}
_DEEPEST = 8
"""From this depth on optional parts are left out, so that recursive schemas end."""


def words(chance: random.Random, count: int) -> str:
    """Some words."""
    return " ".join(chance.choice(_WORDS) for _ in range(count))


def instance(schema: Any, chance: random.Random, root: Any = None, depth: int = 0) -> Any:
    """A value that the schema allows."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return words(chance, 2)
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return instance(_merged(_resolve(schema["$ref"], root), rest), chance, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "allOf" in schema:
        return instance(_all_of(schema, root), chance, root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if schema.get(keyword):
            rest = {key: value for key, value in schema.items() if key != keyword}
            chosen = _choose(schema[keyword], chance, depth)
            return instance(_merged(_referred(chosen, root), rest), chance, root, depth + 1)
    return _typed(schema, _type(schema, chance), chance, root, depth)


def _choose(options: list[Any], chance: random.Random, depth: int) -> Any:
    null = [option for option in options if isinstance(option, dict) and option.get("type") == "null"]
    others = [option for option in options if option not in null]
    if null and (depth > _DEEPEST or not others):
        return null[0]
    return others[0] if depth > _DEEPEST else chance.choice(others)


def _type(schema: Mapping[str, Any], chance: random.Random) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return str(chance.choice([one for one in kind if one != "null"] or kind))
    guesses = {"properties": "object", "required": "object", "additionalProperties": "object", "items": "array"}
    guesses |= {"prefixItems": "array", "minItems": "array", "minimum": "number", "maximum": "number"}
    return str(kind or next((guess for key, guess in guesses.items() if key in schema), "string"))


def _typed(schema: Mapping[str, Any], kind: str, chance: random.Random, root: Any, depth: int) -> Any:
    if kind == "object":
        return _object(schema, chance, root, depth)
    if kind == "array":
        return _array(schema, chance, root, depth)
    if kind in ("integer", "number"):
        return _number(schema, kind == "integer", chance)
    if kind == "boolean":
        return chance.random() < 0.5
    return None if kind == "null" else _string(schema, chance)


def _object(schema: Mapping[str, Any], chance: random.Random, root: Any, depth: int) -> dict[str, Any]:
    properties = {name: part for name, part in schema.get("properties", {}).items() if part is not False}
    extra = schema.get("additionalProperties", True)
    required = schema.get("required", () if depth > _DEEPEST else tuple(properties))
    most = schema.get("maxProperties", len(properties) + len(required))
    optional = [name for name in properties if name not in required and depth <= 2][: max(0, most - len(required))]
    names = [*(name for name in properties if name in required or name in optional)]
    names += [name for name in required if name not in properties]
    unused = [name for name in properties if name not in names]
    while len(names) < schema.get("minProperties", 0):
        names.append(unused.pop(0) if unused else f"key{len(names)}")
    return {name: instance(properties.get(name, extra), chance, root, depth + 1) for name in names}


def _array(schema: Mapping[str, Any], chance: random.Random, root: Any, depth: int) -> list[Any]:
    first, item = schema.get("prefixItems", ()), schema.get("items", True)
    least = schema.get("minItems", 0 if depth > _DEEPEST else 1)
    most = schema.get("maxItems", len(first) if item is False else max(least, len(first)) + 2)
    fewest = min(max(least, len(first)), most)
    count = least if depth > _DEEPEST else chance.randint(fewest, most if most < 5 else min(most, fewest + 2))
    made: list[Any] = []
    for index in range(count):
        for _ in range(20):
            one = instance(first[index] if index < len(first) else item, chance, root, depth + 1)
            if not schema.get("uniqueItems") or one not in made:
                made.append(one)
                break
    return made


def _number(schema: Mapping[str, Any], whole: bool, chance: random.Random) -> float:
    step = schema.get("multipleOf", 1 if whole else None)
    low, high = _limits(schema, float(step or 0))
    if step is None:
        inside = low + (high - low) * (0.25 + chance.random() / 2)
        rounded = round(inside, 3)
        return rounded if low < rounded < high else inside
    first, last = math.ceil(low / step), math.floor(high / step)
    made: float = chance.randint(first, max(first, last)) * step
    return int(made) if whole else made


def _limits(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    """The lowest and the highest number; an exclusive limit is passed by one step."""
    lows = [schema[key] + extra for key, extra in (("minimum", 0), ("exclusiveMinimum", step)) if key in schema]
    highs = [schema[key] - extra for key, extra in (("maximum", 0), ("exclusiveMaximum", step)) if key in schema]
    if lows:
        return max(lows), min(highs) if highs else max(lows) + 100 * max(step, 1)
    return (min(0, min(highs) - 100 * max(step, 1)), min(highs)) if highs else (0, 100 * max(step, 1))


def _string(schema: Mapping[str, Any], chance: random.Random) -> str:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" in schema:
        return from_pattern(schema["pattern"], chance, shortest, longest)
    if schema.get("format") in _FORMATS:
        return _FORMATS[str(schema["format"])]
    text = words(chance, chance.randint(2, 6))
    while len(text) < shortest:
        text += " " + words(chance, 1)
    return text if longest is None else text[: max(longest, shortest)]


def _resolve(reference: str, root: Any) -> Any:
    found = root
    for part in reference.lstrip("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit():
            found = found[int(name)]
        elif name:
            found = found.get(name, {}) if isinstance(found, dict) else {}
    return found


def _referred(schema: Any, root: Any) -> Any:
    return _resolve(schema["$ref"], root) if isinstance(schema, dict) and "$ref" in schema else schema


def _all_of(schema: Mapping[str, Any], root: Any) -> Any:
    merged: Any = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        merged = _merged(merged, _referred(part, root))
    return merged


def _merged(one: Any, other: Any) -> Any:
    """What both allow, as far as a plain union of keywords says so."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one if isinstance(one, dict) else other
    merged = {**one, **other}
    for key in ("minimum", "minLength", "minItems"):
        if key in one and key in other:
            merged[key] = max(one[key], other[key])
    for key in ("maximum", "maxLength", "maxItems"):
        if key in one and key in other:
            merged[key] = min(one[key], other[key])
    if "properties" in one or "properties" in other:
        merged["properties"] = {**one.get("properties", {}), **other.get("properties", {})}
    if "required" in one or "required" in other:
        merged["required"] = [*one.get("required", ()), *other.get("required", ())]
    if "enum" in one and "enum" in other:
        merged["enum"] = [value for value in one["enum"] if value in other["enum"]]
    if "allOf" in one and "allOf" in other:
        merged["allOf"] = [*one["allOf"], *other["allOf"]]
    return merged
