"""Embeddings: the same vector for the same text. Standard library only."""

import base64
import math
import random
import struct
from typing import Any

from shell.simulate.answers import tokens_of

_DIMENSIONS = 64


def embeddings(body: dict[str, Any], model: str) -> dict[str, Any]:
    """The answer of ``/v1/embeddings``."""
    given = body.get("input", "")
    is_one = isinstance(given, str) or (bool(given) and isinstance(given[0], int))
    texts = [str(text) for text in ([given] if is_one else given)]
    made = [_vector(text, int(body.get("dimensions") or _DIMENSIONS)) for text in texts]
    packed = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
        for index, vector in enumerate(made)
    ]
    tokens = sum(map(tokens_of, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _vector(text: str, size: int) -> list[float]:
    chance = random.Random(text)
    raw = [chance.uniform(-1, 1) for _ in range(size)]
    length = math.sqrt(sum(value * value for value in raw)) or 1.0
    return [round(value / length, 6) for value in raw]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
