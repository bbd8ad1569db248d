"""How many bytes of weights a server reads from a model. Runs inside the serving container: standard library only."""

import os
from collections.abc import Sequence

from core.plan.facts import PathFact
from shell.facts.patience import answers

WITHIN_S = 5.0
_KINDS = (".safetensors", ".bin", ".pt", ".gguf")
"""In the order in which vLLM prefers them: it reads one kind only, and no folders below."""
_SECOND_COPY = "consolidated"
"""How some repositories name their weights in a second layout; only read where there is no other."""


def with_weights(paths: Sequence[PathFact], within_s: float = WITHIN_S) -> list[PathFact]:
    """The same, with the sizes that can be told in time. Executables have none."""
    models = [fact for fact in paths if fact.state == "fine" and fact.kind != "executable"]
    sizes = dict(zip(models, answers([fact.path for fact in models], weight_bytes, within_s), strict=True))
    return [
        PathFact(path=fact.path, kind=fact.kind, state=fact.state, detail=fact.detail, weight_bytes=sizes.get(fact))
        for fact in paths
    ]


def weight_bytes(path: str) -> int | None:
    """Of a file, or of the files in a folder; None where there are none or where they cannot be read."""
    try:
        if not os.path.isdir(path):
            return os.stat(path).st_size
        with os.scandir(path) as entries:
            named = [(entry.name, entry.path) for entry in entries if entry.name.endswith(_KINDS)]
        read = _read(named)
        return sum(os.stat(file).st_size for file in read) or None
    except OSError:
        return None


def _read(named: Sequence[tuple[str, str]]) -> list[str]:
    for kind in _KINDS:
        found = [(name, path) for name, path in named if name.endswith(kind)]
        first = [path for name, path in found if not name.startswith(_SECOND_COPY)]
        if found:
            return first or [path for _, path in found]
    return []
