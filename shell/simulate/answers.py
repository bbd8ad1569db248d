"""What a stand-in model says: valid where a schema is asked for, the same for the same request.

Schemas are understood where OpenAI's and vLLM's APIs have them, and in the text of a prompt as Data Designer puts them
there (structured, judge and code columns). Standard library only.
"""

import json
import random
import re
import zlib
from typing import Any

from shell.simulate.code import program
from shell.simulate.pattern import from_pattern
from shell.simulate.schema import instance, words

_CODE_WANTED = re.compile(
    r"(?:code|script|query|program)\b[^.\n]{0,30}\b(?:written )?in ([A-Za-z+#]+(?::[a-z]+)?)", re.IGNORECASE
)
_FENCE = re.compile(r"```([A-Za-z+#:]+)")
_LETTERS_OF_TOKEN = 4


def pieces_of(text: str) -> list[str]:
    """A text in parts of about one token."""
    return [text[start : start + _LETTERS_OF_TOKEN] for start in range(0, len(text), _LETTERS_OF_TOKEN)]


def tokens_of(text: str) -> int:
    """About as many tokens as a text has."""
    return -(-len(text) // _LETTERS_OF_TOKEN)


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
    return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))


def tool_call(body: dict[str, Any], chance: random.Random) -> dict[str, Any] | None:
    """The call of a tool, when the request allows or demands one and none has been answered since the last question."""
    tools, choice = body.get("tools") or [], body.get("tool_choice") or "auto"
    roles = [message.get("role") for message in body["messages"]]
    answered = "tool" in roles and "user" not in roles[max(i for i, role in enumerate(roles) if role == "tool") :]
    if not tools or choice == "none" or (answered and choice == "auto"):
        return None
    wanted = choice["function"]["name"] if isinstance(choice, dict) else None
    functions = [tool["function"] for tool in tools]
    function = next((one for one in functions if one["name"] == wanted), functions[0])
    arguments = instance(function.get("parameters") or {"type": "object"}, chance)
    called = {"name": function["name"], "arguments": json.dumps(arguments)}
    return {"id": f"call_{chance.getrandbits(64):016x}", "type": "function", "function": called}


def answer(body: dict[str, Any], chance: random.Random) -> tuple[str, str]:
    """The text of one choice, and why it ends there.

    Structured text is never cut by `max_tokens`: it is longer or shorter than a real model's only by chance.
    """
    structured = _structured(body, chance)
    if structured is not None:
        return structured, "stop"
    most = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    text = words(chance, chance.randint(12, 40)).capitalize() + "."
    while most and body.get("ignore_eos") and tokens_of(text) < most:
        text += " " + words(chance, 8)
    end = _stop_in(text, body)
    if most and tokens_of(text[:end]) >= most:
        return text[: most * _LETTERS_OF_TOKEN], "length"
    return text[:end], "stop"


def _stop_in(text: str, body: dict[str, Any]) -> int | None:
    """Where the first of the texts in `stop` begins, or ends when it is wanted in the answer; None without one."""
    told = body.get("stop") or []
    stops = [told] if isinstance(told, str) else told
    if "" in stops:
        raise ValueError("stop cannot contain an empty string.")
    found = [(text.find(stop), stop) for stop in stops if stop in text]
    if not found:
        return None
    start, stop = min(found)
    return start + len(stop) if body.get("include_stop_str_in_output") else start


def _structured(body: dict[str, Any], chance: random.Random) -> str | None:
    asked, vllm = body.get("response_format") or {}, body.get("structured_outputs") or {}
    pattern, choices = vllm.get("regex") or body.get("guided_regex"), vllm.get("choice") or body.get("guided_choice")
    if choices:
        return str(chance.choice(choices))
    if pattern:
        return from_pattern(pattern, chance)
    schema = vllm.get("json") or body.get("guided_json")
    if asked.get("type") == "json_schema":
        schema = asked["json_schema"].get("schema") or {"type": "object"}
    if schema is not None:
        return json.dumps(instance(json.loads(schema) if isinstance(schema, str) else schema, chance))
    prompt = prompt_text(body)
    in_prompt = schema_in(prompt)
    if asked.get("type") == "json_object" or vllm.get("json_object"):
        return json.dumps({"answer": words(chance, 4)} if in_prompt is None else instance(in_prompt, chance))
    if in_prompt is not None:
        return f"```json\n{json.dumps(instance(in_prompt, chance))}\n```"
    language = _language(prompt)
    return None if language is None else f"```{language}\n{program(language, chance)}```"


def schema_in(prompt: str) -> Any:
    """The last JSON schema between ``<response_schema>`` marks; None when there is none."""
    for part in reversed(prompt.split("<response_schema>")[1:]):
        try:
            return json.JSONDecoder().raw_decode(part.lstrip())[0]
        except ValueError:
            continue  # A message about a wrong answer has the mark without a schema.
    return None


def _language(prompt: str) -> str | None:
    """The language of the code that is wanted, as the fence of the answer must name it."""
    if "code fence" not in prompt and "code block" not in prompt:
        return None
    wanted = _CODE_WANTED.findall(prompt) or _FENCE.findall(prompt)
    return str(wanted[-1]) if wanted else None


def chance_of(body: dict[str, Any], seed: int, choice: int) -> random.Random:
    """The same request gives the same answer, whoever asks and when, streamed or not."""
    asked = {key: value for key, value in body.items() if key not in ("stream", "stream_options", "model")}
    return random.Random(zlib.crc32(json.dumps([asked, seed, choice], sort_keys=True).encode()))
