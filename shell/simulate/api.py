"""The OpenAI API of a stand-in server, and vLLM's own pages. Standard library only."""

import json
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

from shell.simulate.answers import answer_text, chance_of, prompt_text, tokens_of, tool_call
from shell.simulate.engine import Engine
from shell.simulate.http import Answer, Request, as_json

VERSION = "0.33.0+simulated"
_MODEL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")


class Api:
    """Answers requests for one engine."""

    def __init__(self, engine: Engine, names: tuple[str, ...], key: str | None) -> None:
        self._engine = engine
        self._names = names
        self._key = key

    async def __call__(self, request: Request) -> Answer:
        """The answer to a request; generation may be streamed."""
        if request.path in ("/health", "/ping"):
            return Answer(status=503 if self._engine.dead else 200)
        if request.path == "/version":
            return as_json({"version": VERSION})
        if request.path == "/load":
            return as_json({"server_load": self._engine.running + self._engine.waiting})
        if request.path == "/metrics":
            page = self._engine.metrics(self._names[0]).encode()
            return Answer(body=page, kind="text/plain; version=0.0.4; charset=utf-8")
        if self._key and request.headers.get("authorization") != f"Bearer {self._key}":
            return as_json({"error": "Unauthorized"}, 401)
        if request.path == "/v1/models":
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "vllm"} for name in self._names]
            return as_json({"object": "list", "data": listed})
        if request.path in _MODEL_PATHS:
            return await self._model(request) if request.method == "POST" else error(405, "Method Not Allowed")
        return as_json({"detail": "Not Found"}, 404)

    async def _model(self, request: Request) -> Answer:
        try:
            body = json.loads(request.body)
        except ValueError:
            return error(400, "the body is not JSON")
        if not isinstance(body, dict):
            return error(400, "the body is not an object")
        model = body.get("model", self._names[0])
        if model not in self._names:
            return error(404, f"The model `{model}` does not exist.", "NotFoundError")
        if self._engine.behaviour.full:
            return error(self._engine.behaviour.full, "the queue of requests is full", "ServiceUnavailableError")
        if request.path == "/v1/embeddings":
            return self._embeddings(body, model)
        return await self._generate(request.path == "/v1/chat/completions", body, model)

    async def _generate(self, chat: bool, body: dict[str, Any], model: str) -> Answer:
        given = int(body.get("seed") or self._engine.behaviour.seed)
        chances = [chance_of({k: v for k, v in body.items() if k != "stream"}, given, i) for i in range(_count(body))]
        calls = [tool_call(body, chance) if chat else None for chance in chances]
        texts = ["" if call else answer_text(body, c) for call, c in zip(calls, chances, strict=True)]
        prompt = tokens_of(prompt_text(body))
        made = Made(chat, model, prompt, texts, calls)
        if body.get("stream"):
            usage = bool((body.get("stream_options") or {}).get("include_usage"))
            return Answer(events=self._streamed(made, usage))
        async for _ in self._engine.generate(prompt, ["".join(texts)] * max(1, sum(map(tokens_of, texts)) // 8)):
            pass
        return as_json(made.whole())

    async def _streamed(self, made: "Made", usage: bool) -> AsyncIterator[str]:
        for index, text in enumerate(made.texts):
            if made.calls[index]:
                yield json.dumps(made.chunk(index, {"tool_calls": [{"index": 0, **made.calls[index]}]}, None))
            async for piece in self._engine.generate(made.prompt, _pieces(text)):
                yield json.dumps(made.chunk(index, {"content": piece} if made.chat else piece, None))
            yield json.dumps(made.chunk(index, {} if made.chat else "", made.reason(index)))
        if usage:
            yield json.dumps({**made.head(), "choices": [], "usage": made.usage()})
        yield "[DONE]"

    def _embeddings(self, body: dict[str, Any], model: str) -> Answer:
        given = body.get("input", "")
        texts = given if isinstance(given, list) else [given]
        data = [
            {"object": "embedding", "index": index, "embedding": _vector(str(text))} for index, text in enumerate(texts)
        ]
        tokens = sum(tokens_of(str(text)) for text in texts)
        return as_json(
            {
                "object": "list",
                "data": data,
                "model": model,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )


class Made:
    """One generation, in the forms of the two APIs."""

    def __init__(self, chat: bool, model: str, prompt: int, texts: list[str], calls: list[Any]) -> None:
        self.chat, self.model, self.prompt, self.texts, self.calls = chat, model, prompt, texts, calls

    def head(self) -> dict[str, Any]:
        """What all answers begin with."""
        name = "chat.completion" if self.chat else "text_completion"
        identity = f"cmpl-{zlib.crc32(repr(self.texts).encode()):08x}"
        return {"id": identity, "object": name, "created": int(time.time()), "model": self.model}

    def reason(self, index: int) -> str:
        """Why it ended."""
        return "tool_calls" if self.calls[index] else "stop"

    def usage(self) -> dict[str, int]:
        """Counts of tokens."""
        made = sum(map(tokens_of, self.texts))
        return {"prompt_tokens": self.prompt, "completion_tokens": made, "total_tokens": self.prompt + made}

    def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        choices: list[dict[str, Any]] = []
        for index, text in enumerate(self.texts):
            message: dict[str, Any] = {"role": "assistant", "content": text or None}
            if self.calls[index]:
                message["tool_calls"] = [self.calls[index]]
            content = {"message": message} if self.chat else {"text": text}
            choices.append({"index": index, "finish_reason": self.reason(index), "logprobs": None, **content})
        return {**self.head(), "choices": choices, "usage": self.usage()}

    def chunk(self, index: int, content: Any, reason: str | None) -> dict[str, Any]:
        """A part of a streamed answer."""
        inner = {"delta": content} if self.chat else {"text": content}
        head = self.head() | {"object": "chat.completion.chunk" if self.chat else "text_completion"}
        return {**head, "choices": [{"index": index, "finish_reason": reason, **inner}]}


def error(status: int, message: str, kind: str = "BadRequestError") -> Answer:
    """An error in vLLM's form."""
    return as_json({"error": {"message": message, "type": kind, "param": None, "code": status}}, status)


def _count(body: dict[str, Any]) -> int:
    return max(1, int(body.get("n") or 1))


def _pieces(text: str) -> list[str]:
    return [text[i : i + 4] for i in range(0, len(text), 4)]


def _vector(text: str) -> list[float]:
    return [round(((zlib.crc32(f"{i}{text}".encode()) % 2001) - 1000) / 1000, 3) for i in range(16)]
