"""Instances of a JSON schema: valid, plausible, and the same for the same seed. Standard library only."""

import random
import re
from typing import Any

_WORDS = (
    "calm river stone bright garden small engine quiet market green window early train blue letter warm coffee long "
    "story clear answer good reason simple test strong coat new lamp"
).split()
_FORMATS = {
    "date-time": "2026-05-04T10:20:30Z",
    "date": "2026-05-04",
    "time": "10:20:30Z",
    "email": "someone@example.com",
    "uri": "https://example.com/page",
    "url": "https://example.com/page",
    "uuid": "12345678-1234-4678-8234-567812345678",
    "ipv4": "192.0.2.1",
    "duration": "PT1H",
}
_DEEPEST = 12


def words(chance: random.Random, count: int) -> str:
    """Some words."""
    return " ".join(chance.choice(_WORDS) for _ in range(count))


def instance(schema: Any, chance: random.Random, root: Any = None, depth: int = 0) -> Any:
    """A value that the schema allows, for the keywords that structured output uses."""
    root = schema if root is None else root
    if schema is True or schema == {}:
        return words(chance, 2)
    if not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        return instance(_resolve(schema["$ref"], root), chance, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "allOf" in schema:
        return instance(_merged(schema, root), chance, root, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            options = schema[keyword]
            plain = [option for option in options if option.get("type") != "null"]
            deep = depth > _DEEPEST and len(plain) < len(options)
            rest = {key: value for key, value in schema.items() if key != keyword}
            chosen = {"type": "null"} if deep else chance.choice(plain or options)
            return instance({**rest, **chosen}, chance, root, depth + 1)
    return _typed(schema, _type(schema, chance), chance, root, depth)


def _type(schema: dict[str, Any], chance: random.Random) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return str(chance.choice([k for k in kind if k != "null"] or kind))
    if kind is None:
        guesses = (("properties", "object"), ("items", "array"), ("minimum", "number"), ("pattern", "string"))
        return next((guess for key, guess in guesses if key in schema), "string")
    return str(kind)


def _typed(schema: dict[str, Any], kind: str, chance: random.Random, root: Any, depth: int) -> Any:
    if kind == "object":
        return _object(schema, chance, root, depth)
    if kind == "array":
        return _array(schema, chance, root, depth)
    if kind == "integer":
        return _integer(schema, chance)
    if kind == "number":
        low, high = float(schema.get("minimum", 0)), float(schema.get("maximum", schema.get("minimum", 0) + 100))
        return round(low + (high - low) * (0.25 + chance.random() / 2), 3)
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "null":
        return None
    return _string(schema, chance)


def _object(schema: dict[str, Any], chance: random.Random, root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", list(properties))
    names = [name for name in properties if name in required or depth <= 2]
    made = {name: instance(properties[name], chance, root, depth + 1) for name in names}
    extra = schema.get("additionalProperties", True)
    for name in required:
        made.setdefault(name, instance(extra if isinstance(extra, dict) else {}, chance, root, depth + 1))
    while len(made) < schema.get("minProperties", 0):
        made[f"key{len(made)}"] = instance(extra if isinstance(extra, dict) else {}, chance, root, depth + 1)
    return made


def _array(schema: dict[str, Any], chance: random.Random, root: Any, depth: int) -> list[Any]:
    first = [instance(item, chance, root, depth + 1) for item in schema.get("prefixItems", ())]
    least = max(schema.get("minItems", 0 if depth > _DEEPEST else 1), len(first))
    count = min(chance.randint(least, least + 2), schema.get("maxItems", least + 2))
    made = first + [instance(schema.get("items", {}), chance, root, depth + 1) for _ in range(count - len(first))]
    if schema.get("uniqueItems"):
        made = [item for index, item in enumerate(made) if item not in made[:index]]
    return made


def _integer(schema: dict[str, Any], chance: random.Random) -> int:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
    high = schema.get("maximum", schema.get("exclusiveMaximum", low + 101) - 1)
    step = int(schema.get("multipleOf", 1)) or 1
    return chance.randint(-(-int(low) // step), max(int(high) // step, -(-int(low) // step))) * step


def _string(schema: dict[str, Any], chance: random.Random) -> str:
    if "pattern" in schema:
        return from_pattern(str(schema["pattern"]), chance)
    if schema.get("format") in _FORMATS:
        return _FORMATS[str(schema["format"])]
    text: str = words(chance, chance.randint(2, 6))
    text += " x" * ((int(schema.get("minLength", 0)) - len(text) + 1) // 2)
    return text[: int(schema.get("maxLength", len(text)))]


def from_pattern(pattern: str, chance: random.Random) -> str:
    """A text for a simple pattern: classes, groups without alternatives, repetitions."""
    made = ""
    for token, count in re.findall(r"(\[[^\]]*\]|\\.|[^\\^$])(\{[0-9, ]+\}|[*+?])?", pattern.strip("^$")):
        low = int(count[1:-1].split(",")[0] or 0) if count.startswith("{") else 0 if count in ("*", "?") else 1
        choices = _class(token)
        made += "".join(chance.choice(choices) for _ in range(max(low, 1) if not count else low)) if choices else ""
    return made


def _class(token: str) -> str:
    sets = {"\\d": "0123456789", "\\w": "abcdefghij", "\\s": " ", ".": "abc"}
    if token in sets or token in "()":
        return sets.get(token, "")
    if not token.startswith("["):
        return token[-1]
    made = ""
    for low, high, single in re.findall(r"(\w)-(\w)|(\\?.)", token[1:-1]):
        made += "".join(map(chr, range(ord(low), ord(high) + 1))) if low else sets.get(single, single[-1])
    return made


def _resolve(reference: str, root: Any) -> Any:
    found = root
    for part in reference.lstrip("#/").split("/"):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return found


def _merged(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        part = _resolve(part["$ref"], root) if "$ref" in part else part
        both = {**merged.get("properties", {}), **part.get("properties", {})}
        required = [*merged.get("required", ()), *part.get("required", ())]
        merged = {**merged, **part, "properties": both, "required": required}
    return merged
