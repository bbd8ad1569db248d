"""What a stand-in model says: valid where a schema is asked for, the same for the same request."""

import json
import random
import re
import zlib
from typing import Any

from shell.simulate.schema import instance, words

_IN_PROMPT = re.compile(r"<response_schema>\s*(\{.*\})\s*</response_schema>", re.DOTALL)


def tokens_of(text: str) -> int:
    """About as many tokens as a text has."""
    return max(1, len(text) // 4)


def prompt_text(body: dict[str, Any]) -> str:
    """Everything that the model reads."""
    if "messages" not in body:
        prompt = body.get("prompt", "")
        return prompt if isinstance(prompt, str) else json.dumps(prompt)
    return "\n".join(_content(message) for message in body["messages"])


def _content(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content if isinstance(part, dict))


def tool_call(body: dict[str, Any], chance: random.Random) -> dict[str, Any] | None:
    """The call of a tool, when the request allows or demands one and none has been answered yet."""
    tools, choice = body.get("tools") or [], body.get("tool_choice", "auto")
    answered = any(message.get("role") == "tool" for message in body.get("messages", ()))
    if not tools or choice == "none" or (answered and not isinstance(choice, dict)):
        return None
    wanted = choice["function"]["name"] if isinstance(choice, dict) else None
    functions = [tool["function"] for tool in tools]
    function = next((f for f in functions if f["name"] == wanted), functions[0])
    arguments = instance(function.get("parameters", {"type": "object"}), chance)
    called = {"name": function["name"], "arguments": json.dumps(arguments)}
    return {"id": f"call_{chance.getrandbits(48):012x}", "type": "function", "function": called}


def answer_text(body: dict[str, Any], chance: random.Random) -> str:
    """The text of one choice."""
    schema = _wanted_schema(body)
    if schema is not None:
        return json.dumps(instance(schema, chance))
    prompt = prompt_text(body)
    in_prompt = _IN_PROMPT.findall(prompt)
    if in_prompt:
        made = instance(json.loads(in_prompt[-1]), chance)
        return f"```json\n{json.dumps(made)}\n```"
    fence = re.findall(r"```(\w+)", prompt)
    if fence and "code" in prompt.lower():
        return f"```{fence[-1]}\n{_code(fence[-1])}\n```"
    most = body.get("max_tokens") or body.get("max_completion_tokens") or 64
    return words(chance, min(chance.randint(12, 40), int(most))).capitalize() + "."


def _code(language: str) -> str:
    return "SELECT 1;" if "sql" in language else "print('hello')"


def _wanted_schema(body: dict[str, Any]) -> Any:
    asked = body.get("response_format") or {}
    if asked.get("type") == "json_schema":
        return asked["json_schema"].get("schema", {})
    if asked.get("type") == "json_object":
        return {"type": "object"}
    structured = body.get("structured_outputs") or {}
    choices = structured.get("choice") or body.get("guided_choice")
    if choices:
        return {"enum": choices}
    return structured.get("json") or body.get("guided_json")


def chance_of(body: dict[str, Any], seed: int, choice: int) -> random.Random:
    """The same request gives the same answer, whoever asks and when."""
    text = json.dumps([body, seed, choice], sort_keys=True)
    return random.Random(zlib.crc32(text.encode()))
