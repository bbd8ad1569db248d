"""The OpenAI API of a stand-in server, and vLLM's own pages. Standard library only."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from shell.simulate.answers import answer, chance_of, prompt_text, tokens_of, tool_call
from shell.simulate.engine import Engine
from shell.simulate.forms import Choice, Made
from shell.simulate.http import Answer, Request, as_json
from shell.simulate.vectors import embeddings

VERSION = "0.32.0+simulated"
_MODEL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


class Api:
    """Answers requests for the engines of one server."""

    def __init__(
        self,
        engine: Engine,
        names: tuple[str, ...],
        *,
        keys: tuple[str, ...],
        most_waiting: int | None,
        figures: bool,
        longest: int,
    ) -> None:
        self._engine, self._names, self._keys = engine, names, keys
        self._most_waiting, self._figures, self._since = most_waiting, figures, int(time.time())
        self._longest = longest

    async def __call__(self, request: Request) -> Answer:
        """The answer to a request; generation may be streamed."""
        if request.path.startswith("/v1/") and not self._is_allowed(request):
            return as_json({"error": "Unauthorized"}, 401)
        if request.path in _MODEL_PATHS:
            return await self._model(request) if request.method == "POST" else as_json(_NOT_ALLOWED, 405)
        return as_json({"detail": "Not Found"}, 404) if request.method == "POST" else self._page(request.path)

    def _is_allowed(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return not self._keys or (scheme.lower() == "bearer" and token in self._keys)

    def _page(self, path: str) -> Answer:
        if path in ("/health", "/ping"):
            return Answer(status=503 if self._engine.dead else 200, kind="text/plain")
        if path == "/version":
            return as_json({"version": VERSION})
        if path == "/load":
            return as_json({"server_load": self._engine.running + self._engine.waiting})
        if path == "/metrics":
            page = self._engine.metrics(self._names[0]) if self._figures else ""
            return Answer(body=page.encode(), kind="text/plain; version=0.0.4; charset=utf-8")
        if path == "/v1/models":
            return as_json({"object": "list", "data": [self._card(name) for name in self._names]})
        return as_json({"detail": "Not Found"}, 404)

    def _card(self, name: str) -> dict[str, Any]:
        same = {"object": "model", "created": self._since, "owned_by": "vllm", "parent": None}
        return {"id": name, "root": self._names[0], "max_model_len": self._longest, **same}

    async def _model(self, request: Request) -> Answer:
        try:
            body = json.loads(request.body)
        except ValueError:
            return error(400, "Invalid JSON: the body cannot be read")
        wrong = _wrong(request.path, body)
        if wrong:
            return error(400, wrong)
        model = body.get("model") or self._names[0]
        if model not in self._names:
            return error(404, f"The model `{model}` does not exist.", "NotFoundError")
        if self._engine.dead:
            return error(500, "EngineCore encountered an issue.", "InternalServerError")
        if self._is_full():
            self._engine.rejected += 1
            return error(self._engine.behaviour.full or 503, "The server is overloaded.", "ServiceUnavailableError")
        try:
            return await self._answered(request.path, body, model)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as problem:
            return error(400, f"{type(problem).__name__}: {problem}")

    def _is_full(self) -> bool:
        most = self._most_waiting
        return bool(self._engine.behaviour.full) or (most is not None and self._engine.waiting >= most)

    async def _answered(self, path: str, body: dict[str, Any], model: str) -> Answer:
        if path == "/v1/embeddings":
            made = embeddings(body, model)
            await self._run(made["usage"]["prompt_tokens"], [(0, "")], "stop")
            return as_json(made)
        chat = path == "/v1/chat/completions"
        choices = self._choices(chat, body)
        prompt, reason = tokens_of(prompt_text(body)) + 4, choices[0].reason
        reply = Made(chat, model, prompt, choices)
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return Answer(events=self._streamed(reply, prompt, _counted(reason), usage))
        await self._run(prompt, reply.pieces, _counted(reason))
        return as_json(reply.whole())

    def _choices(self, chat: bool, body: dict[str, Any]) -> list[Choice]:
        seed = int(body.get("seed") or 0) + self._engine.behaviour.seed
        made = []
        for index, asked in enumerate(_asked(body) * max(1, int(body.get("n") or 1))):
            chance = chance_of(asked, seed, index)
            call = tool_call(asked, chance) if chat else None
            text, reason = ("", "tool_calls") if call else answer(asked, chance)
            made.append(Choice(text, reason, call))
        return made

    async def _run(self, prompt: int, pieces: list[tuple[int, str]], reason: str) -> None:
        async with aclosing(self._engine.generate(prompt, pieces, reason)) as generated:
            async for _ in generated:
                pass

    async def _streamed(self, reply: Made, prompt: int, reason: str, usage: bool) -> AsyncGenerator[str, None]:
        began = False
        async with aclosing(self._engine.generate(prompt, reply.pieces, reason)) as generated:
            async for index, piece in generated:
                for event in () if began else reply.beginning():
                    yield json.dumps(event)
                began = True
                yield json.dumps(reply.part(index, piece))
        for event in reply.ending(usage):
            yield json.dumps(event)
        yield "[DONE]"


_NOT_ALLOWED = {"detail": "Method Not Allowed"}


def error(status: int, message: str, kind: str = "BadRequestError") -> Answer:
    """An error in vLLM's form."""
    return as_json({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)


def _wrong(path: str, body: Any) -> str | None:
    """What is missing in a body."""
    needed = {"/v1/chat/completions": "messages", "/v1/completions": "prompt", "/v1/embeddings": "input"}[path]
    if not isinstance(body, dict):
        return "the body is not an object"
    if needed not in body:
        return f"{needed}: field required"
    messages = body.get("messages", [])
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return "messages: a list of objects is expected"
    return None


def _asked(body: dict[str, Any]) -> list[dict[str, Any]]:
    """One body per prompt: completions may have several."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return [{**body, "prompt": one} for one in prompt]
    return [body]


def _counted(reason: str) -> str:
    """The reason as the figures know it."""
    return "length" if reason == "length" else "stop"
