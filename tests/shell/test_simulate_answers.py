"""What the stand-in answers: schemas in the API and in the prompt, code, tools, lengths, the same for the same."""

import ast
import json
import re
from typing import Any

import pytest

from shell.simulate.answers import answer, chance_of, schema_in, tool_call

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
IN_PROMPT = (
    "Make a point.\n\n* Your response must be in JSON format.\n"
    "* Your JSON response must be returned within a Markdown, ```json code fence.\n"
    "* The JSON format is given as a JSON Schema description within <response_schema> markup tags.\n\n"
    f"<response_schema>\n{json.dumps(POINT)}\n</response_schema>"
)
CODE = (
    "Write something about code in general.\n\n* Your response must be code written in {language}.\n"
    "* You will follow accepted and common syntax and best-practices.\n"
    "* Your response will be given in markdown code fences specifying the correct language.\n"
    "* Only respond with a SINGLE code block."
)
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": POINT}}
OTHER_TOOL = {"type": "function", "function": {"name": "other"}}
QUESTION = {"role": "user", "content": "q"}
CALLED: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "r"}


def said(content: Any = "Hello", seed: int = 0, **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": content}], **more}
    return answer(body, chance_of(body, seed, 0))[0]


def called(*messages: dict[str, Any], **more: Any) -> str | None:
    body = {"messages": list(messages), "tools": [TOOL, OTHER_TOOL], **more}
    call = tool_call(body, chance_of(body, 0, 0))
    return call["function"]["name"] if call else None


@pytest.mark.parametrize(
    "more",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": POINT}}},
        {"structured_outputs": {"json": POINT}},
        {"structured_outputs": {"json": json.dumps(POINT)}},
        {"guided_json": POINT},
    ],
)
def test_a_schema_in_the_request(more: dict[str, Any]) -> None:
    assert isinstance(json.loads(said(**more))["x"], int)


def test_other_forms_of_structured_output() -> None:
    assert said(structured_outputs={"choice": ["yes"]}) == "yes"
    assert re.fullmatch(r"\d{4}", said(structured_outputs={"regex": r"\d{4}"}))
    assert isinstance(json.loads(said(response_format={"type": "json_object"})), dict)
    assert isinstance(json.loads(said(IN_PROMPT, response_format={"type": "json_object"}))["x"], int)


@pytest.mark.parametrize("content", [IN_PROMPT, [{"type": "text", "text": IN_PROMPT}]])
def test_a_schema_in_the_prompt_is_answered_in_a_fence(content: Any) -> None:
    fenced = re.fullmatch(r"```json\n(.*)\n```", said(content))
    assert fenced
    assert isinstance(json.loads(fenced[1])["x"], int)


def test_the_last_schema_that_can_be_read_counts() -> None:
    first = IN_PROMPT.replace('"x"', '"earlier"')
    correction = "Response doesn't match requested <response_schema>\n'x' is a required property"
    assert schema_in("\n".join((first, IN_PROMPT, correction))) == POINT
    assert schema_in(correction) is None


def test_a_long_structured_answer_is_not_cut() -> None:
    many = {"type": "array", "items": {"type": "string"}, "minItems": 20}
    assert len(json.loads(said(guided_json=many, max_tokens=3))) >= 20


@pytest.mark.parametrize("language", ["python", "sql", "bash", "c", "javascript", "rust", "cobol", "klingon"])
def test_code_is_fenced_with_its_language(language: str) -> None:
    for seed in range(5):
        text = said(CODE.format(language=language), seed)
        assert re.fullmatch(rf"```{language}\n[^`]+\n```", text)
        assert "{{" not in text


def test_python_is_python() -> None:
    text = said(CODE.format(language="python"))
    assert isinstance(ast.parse(text.removeprefix("```python\n").removesuffix("```")).body[0], ast.FunctionDef)


def test_talk_about_code_is_no_wish_for_code() -> None:
    assert "```" not in said("Summarise the code written in python by our team.")


def test_lengths() -> None:
    body: dict[str, Any] = {"messages": [QUESTION], "max_tokens": 3}
    assert answer(body, chance_of(body, 0, 0))[1] == "length"
    assert len(said(max_tokens=3)) == 12
    assert len(said(max_completion_tokens=500, ignore_eos=True)) == 2000
    assert said().endswith(".")


def test_it_ends_where_it_is_told_to_stop() -> None:
    body: dict[str, Any] = {"messages": [QUESTION], "stop": ["no such words", "."], "include_stop_str_in_output": False}
    assert "." not in answer(body, chance_of(body, 0, 0))[0]
    assert not set("aeo") & set(said(stop=["o", "e", "a"]))
    assert said(stop="e", include_stop_str_in_output=True).endswith("e")
    assert said(stop=["no such words"]).endswith(".")


def test_tools_are_called_once_and_then_an_answer_comes() -> None:
    assert called(QUESTION) == "look_up"
    assert called(QUESTION, CALLED, RESULT) is None
    assert called(QUESTION, CALLED, RESULT, QUESTION) == "look_up"
    assert called(QUESTION, tool_choice="none") is None
    assert called(QUESTION, CALLED, RESULT, tool_choice="required") == "look_up"
    assert called(QUESTION, tool_choice={"type": "function", "function": {"name": "other"}}) == "other"


def test_arguments_of_a_call_are_valid() -> None:
    body = {"messages": [QUESTION], "tools": [TOOL]}
    call = tool_call(body, chance_of(body, 0, 0))
    assert call
    assert isinstance(json.loads(call["function"]["arguments"])["x"], int)


def test_the_same_request_is_answered_the_same_and_another_otherwise() -> None:
    assert said("a") == said("a", stream=True, model="other name")
    assert len({said("a"), said("b"), said("a", seed=1), said("a", temperature=0.1)}) == 4
