"""Asking a server whether it is ready: that it lives, that it is the right one, and that it really answers.

Three questions, cheapest first, over the address that the server was bound to; proxies of the environment are ignored.
``/health`` alone lies: a second server on one port is answered for by the first, and an engine can be up and die at
its first request. So the list of models must hold the name that only this replica has, and one token must come back.
"""

from collections.abc import Mapping
from typing import TypeAlias

import httpx
import msgspec

from core.plan.steps import Probe

TIMEOUT = httpx.Timeout(5.0)
COMPLETION_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
"""The first token after a cold start waits for kernels to compile."""
_NO_COMPLETIONS = (400, 404, 405, 422, 501)
"""What a model without completions (embeddings, pooling) says: the engine is not asked, but the API is right."""


class NotYet(msgspec.Struct, frozen=True, kw_only=True):
    """Still starting, or busy; `why` is for people."""

    why: str


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """Another server answers there."""

    found: tuple[str, ...]
    wanted: tuple[str, ...]


class Serves(msgspec.Struct, frozen=True, kw_only=True):
    """The right server, and its engine has made a token."""


Answer: TypeAlias = NotYet | Foreign | Serves


class _Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str


class _Models(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[_Model, ...]


def probe(target: Probe, token: str) -> Answer:
    """Ask one server. Never raises for what a network or a server can do."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with httpx.Client(base_url=target.base_url, headers=headers, timeout=TIMEOUT, trust_env=False) as client:
            return _ask(client, target)
    except httpx.HTTPError as error:
        return NotYet(why=f"{type(error).__name__}: {error}")


def _ask(client: httpx.Client, target: Probe) -> Answer:
    health = client.get(target.readiness_path)
    if health.status_code != 200:
        return NotYet(why=f"{target.readiness_path} answers {health.status_code}")
    listed = client.get("/v1/models")
    if listed.status_code in (401, 403):
        return Foreign(found=("a server that does not know our token",), wanted=target.names)
    if listed.status_code != 200:
        return NotYet(why=f"/v1/models answers {listed.status_code}")
    try:
        names = tuple(model.id for model in msgspec.json.decode(listed.content, type=_Models).data)
    except msgspec.DecodeError:
        return NotYet(why="/v1/models answers without a list of models")
    if not set(target.names) <= set(names):
        return Foreign(found=names, wanted=target.names)
    return _one_token(client, target.names[0])


def _one_token(client: httpx.Client, model: str) -> Answer:
    request: Mapping[str, object] = {"model": model, "prompt": "1", "max_tokens": 1}
    answer = client.post("/v1/completions", json=request, timeout=COMPLETION_TIMEOUT)
    if answer.status_code == 200 or answer.status_code in _NO_COMPLETIONS:
        return Serves()
    return NotYet(why=f"a completion of one token answers {answer.status_code}")
