"""A generation in the forms of OpenAI's two APIs, whole and streamed. Standard library only."""

import dataclasses
import itertools
import time
from collections.abc import Iterator
from typing import Any

from shell.simulate.answers import pieces_of

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of `n` answers: a text or the call of a tool."""

    text: str
    reason: str
    call: dict[str, Any] | None = None

    @property
    def pieces(self) -> list[str]:
        """What is generated, in parts of about a token; never nothing."""
        return pieces_of(self.call["function"]["arguments"] if self.call else self.text) or [""]


class Made:
    """All choices of one request."""

    def __init__(self, chat: bool, model: str, prompt: int, choices: list[Choice]) -> None:
        self._chat, self._prompt, self.choices = chat, prompt, choices
        identity = f"{'chatcmpl' if chat else 'cmpl'}-{time.time_ns():x}{next(_numbers):x}"
        self._head = {"id": identity, "created": int(time.time()), "model": model}

    @property
    def pieces(self) -> list[tuple[int, str]]:
        """Everything that is generated, with the number of its choice."""
        return [(index, piece) for index, choice in enumerate(self.choices) for piece in choice.pieces]

    def usage(self) -> dict[str, Any]:
        """Counts of tokens."""
        made = len(self.pieces)
        return {"prompt_tokens": self._prompt, "completion_tokens": made, "total_tokens": self._prompt + made}

    def whole(self) -> dict[str, Any]:
        """The answer in one piece."""
        name = "chat.completion" if self._chat else "text_completion"
        listed = [self._whole_choice(index, choice) for index, choice in enumerate(self.choices)]
        return {**self._head, "object": name, "choices": listed, "usage": self.usage()}

    def _whole_choice(self, index: int, choice: Choice) -> dict[str, Any]:
        ending = {"index": index, "logprobs": None, "finish_reason": choice.reason}
        if not self._chat:
            return {**ending, "text": choice.text}
        message = {
            "role": "assistant",
            "content": choice.text or None,
            "tool_calls": [choice.call] if choice.call else [],
        }
        return {**ending, "message": message}

    def beginning(self) -> Iterator[dict[str, Any]]:
        """The first events of a stream."""
        if not self._chat:
            return
        for index, choice in enumerate(self.choices):
            yield self._event(index, {"role": "assistant", "content": ""})
            if choice.call:
                function = {**choice.call["function"], "arguments": ""}
                yield self._event(index, {"tool_calls": [{**choice.call, "index": 0, "function": function}]})

    def part(self, index: int, piece: str) -> dict[str, Any]:
        """The event of one piece."""
        if not self._chat:
            return self._event(index, piece)
        if self.choices[index].call:
            return self._event(index, {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        return self._event(index, {"content": piece})

    def ending(self, usage: bool) -> Iterator[dict[str, Any]]:
        """The last events of a stream."""
        for index, choice in enumerate(self.choices):
            yield self._event(index, {} if self._chat else "", choice.reason)
        if usage:
            yield {**self._head, "object": self._object, "choices": [], "usage": self.usage()}

    @property
    def _object(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _event(self, index: int, content: Any, reason: str | None = None) -> dict[str, Any]:
        inner = {"delta": content} if self._chat else {"text": content}
        choice = {"index": index, **inner, "logprobs": None, "finish_reason": reason}
        return {**self._head, "object": self._object, "choices": [choice]}
