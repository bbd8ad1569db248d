"""Asking a server whether it is ready: that it lives, that it is the right one, and that it really answers.

Three questions, cheapest first, over the address that the server was bound to; proxies of the environment are ignored.
``/health`` alone lies: a second server on one port is answered for by the first, and an engine can be up and die at
its first request. So the list of models must hold the name that only this replica has, and one token must come back.

A thousand servers are asked again and again while they start: ``http.client`` needs a fiftieth of the CPU of a client
with pools, redirects and certificates, and is imported when servers have been started.
"""

import json
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import msgspec

from core.plan.steps import Probe

if TYPE_CHECKING:
    from http.client import HTTPConnection

TIMEOUT_S = 5.0
COMPLETION_TIMEOUT_S = 60.0
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
    from http.client import HTTPConnection, HTTPException

    place = urlsplit(target.base_url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=TIMEOUT_S)
    try:
        return _ask(_Server(connection, token), target)
    except (OSError, HTTPException) as error:
        return NotYet(why=f"{type(error).__name__}: {error}")
    finally:
        connection.close()


class _Server:
    """Who is asked, over one connection."""

    def __init__(self, connection: "HTTPConnection", token: str) -> None:
        self._connection, self._token = connection, token

    def ask(self, path: str, post: bytes | None = None) -> tuple[int, bytes]:
        """Status and content. An answer of unknown length or encoding is none that a server of ours gives."""
        from http.client import HTTPException

        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request("GET" if post is None else "POST", path, post, headers)
        answer = self._connection.getresponse()
        if answer.getheader("Content-Encoding") or (answer.length is None and not answer.chunked):
            raise HTTPException(f"{path} answers with content of unknown length or encoding")
        return answer.status, answer.read()

    def be_patient(self, seconds: float) -> None:
        """How long the next answers may take."""
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)


def _ask(server: _Server, target: Probe) -> Answer:
    status, _ = server.ask(target.readiness_path)
    if status != 200:
        return NotYet(why=f"{target.readiness_path} answers {status}")
    status, listed = server.ask("/v1/models")
    if status in (401, 403):
        return Foreign(found=("a server that does not know our token",), wanted=target.names)
    if status != 200:
        return NotYet(why=f"/v1/models answers {status}")
    try:
        names = tuple(model.id for model in msgspec.json.decode(listed, type=_Models).data)
    except msgspec.DecodeError:
        return NotYet(why="/v1/models answers without a list of models")
    if not set(target.names) <= set(names):
        return Foreign(found=names, wanted=target.names)
    return _one_token(server, target.names[0])


def _one_token(server: _Server, model: str) -> Answer:
    request = json.dumps({"model": model, "prompt": "1", "max_tokens": 1}).encode()
    server.be_patient(COMPLETION_TIMEOUT_S)
    status, _ = server.ask("/v1/completions", request)
    if status == 200 or status in _NO_COMPLETIONS:
        return Serves()
    return NotYet(why=f"a completion of one token answers {status}")
