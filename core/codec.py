"""The one spelling of our values as JSON, for files and for golden tests.

Canonical form, public and stable: struct fields in declared order, keys of mappings sorted, two spaces, one
element a line, a final newline. Runs inside the serving container: standard library and msgspec only.
"""

import msgspec


def canonical_json(value: object) -> bytes:
    """For people and golden tests: indented, deterministic, ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2) + b"\n"


def compact_json(value: object) -> bytes:
    """For files that only programs read and for lines of a journal: deterministic, one line, no newline."""
    return msgspec.json.encode(value, order="deterministic")
