"""The stand-in's pages and OpenAI API, as clients see them."""

import asyncio
import json
import struct
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.shell.node_world import until
from tests.shell.simulated import Simulated, simulated

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    names = ("--served-model-name", "writer", "run.0.writer-0", "--max-model-len=4K")
    with simulated(tmp_path_factory.mktemp("api"), *names, environment={"VLLM_API_KEY": "secret"}) as running:
        yield running


@pytest.fixture
def client(server: Simulated) -> Iterator[httpx.Client]:
    with server.client(headers={"Authorization": "Bearer secret"}) as one:
        yield one


def events(answer: httpx.Response) -> list[Any]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_pages_without_a_key(server: Simulated) -> None:
    with server.client() as client:
        assert [client.get(path).status_code for path in ("/health", "/ping", "/metrics", "/load")] == [200] * 4
        assert client.get("/version").json()["version"].startswith("0.32")
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert server.chat(client).status_code == 401
        assert client.get("/nothing").status_code == 404


def test_models_are_the_served_names(client: httpx.Client) -> None:
    cards = client.get("/v1/models").json()["data"]
    assert [card["id"] for card in cards] == ["writer", "run.0.writer-0"]
    assert {card["max_model_len"] for card in cards} == {4096}


def test_wrong_requests(server: Simulated, client: httpx.Client) -> None:
    unknown = server.chat(client, model="other")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "NotFoundError")
    path = "/v1/chat/completions"
    bad: list[Any] = [
        b"{",
        b"[]",
        b"{}",
        b'{"messages": 3}',
        b'{"messages": [1]}',
        b'{"messages": [], "n": "x"}',
        b'{"messages": [], "stop": [""]}',
    ]
    answers = [client.post(path, content=content) for content in bad]
    assert [answer.status_code for answer in answers] == [400] * len(bad)
    assert all(answer.json()["error"]["message"] for answer in answers)
    assert client.get(path).status_code == 405


def test_a_chat_answer(server: Simulated, client: httpx.Client) -> None:
    answer = server.chat(client, model="run.0.writer-0", n=2).json()
    assert (answer["object"], answer["model"]) == ("chat.completion", "run.0.writer-0")
    texts = [choice["message"]["content"] for choice in answer["choices"]]
    assert len(set(texts)) == 2
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] == sum(-(-len(text) // 4) for text in texts)


def test_a_stream_says_the_same_as_the_whole_answer(server: Simulated, client: httpx.Client) -> None:
    whole = server.chat(client, "Tell me", max_tokens=9).json()
    streamed = events(server.chat(client, "Tell me", max_tokens=9, stream=True, stream_options={"include_usage": True}))
    *parts, last, usage = streamed
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len({part["id"] for part in streamed}) == 1
    text = "".join(part["choices"][0]["delta"]["content"] for part in parts)
    assert text == whole["choices"][0]["message"]["content"]
    assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "length"
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    assert len(parts) == 1 + whole["usage"]["completion_tokens"]


def test_completions_with_several_prompts(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json={"model": "writer", "prompt": ["a", "b"], "max_tokens": 2}).json()
    assert [(choice["index"], len(choice["text"])) for choice in answer["choices"]] == [(0, 8), (1, 8)]
    streamed = events(client.post("/v1/completions", json={"prompt": [1, 2, 3], "max_tokens": 2, "stream": True}))
    assert [len(event["choices"][0]["text"]) for event in streamed] == [4, 4, 0]


def test_a_tool_call_whole_and_streamed(server: Simulated, client: httpx.Client) -> None:
    choice = server.chat(client, tools=[TOOL]).json()["choices"][0]
    call = choice["message"]["tool_calls"][0]
    assert (choice["finish_reason"], call["function"]["name"], call["type"]) == ("tool_calls", "add", "function")
    parts = [event["choices"][0] for event in events(server.chat(client, tools=[TOOL], stream=True))]
    calls = [part["delta"]["tool_calls"][0] for part in parts if "tool_calls" in part["delta"]]
    assert (calls[0]["id"], calls[0]["function"]["name"]) == (call["id"], "add")
    assert "".join(part["function"]["arguments"] for part in calls) == call["function"]["arguments"]
    assert parts[-1]["finish_reason"] == "tool_calls"


def test_embeddings(client: httpx.Client) -> None:
    both = client.post("/v1/embeddings", json={"input": ["a", "b"]}).json()["data"]
    assert both[0]["embedding"] != both[1]["embedding"]
    assert sum(value * value for value in both[0]["embedding"]) == pytest.approx(1, abs=1e-3)
    body = {"input": "a", "dimensions": 8, "encoding_format": "base64"}
    packed = client.post("/v1/embeddings", json=body).json()["data"]
    assert len(struct.unpack("<8f", b64decode(packed[0]["embedding"]))) == 8


def test_connections_are_kept(server: Simulated) -> None:
    async def talk() -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        body = b'{"prompt": "a", "max_tokens": 1}'
        head = b"POST /v1/completions HTTP/1.1\r\nauthorization: Bearer secret\r\n"
        chunked = head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body + chunked)
        writer.write(b"GET /ping HTTP/1.1\r\nconnection: close\r\n\r\n")
        answers = (await asyncio.wait_for(reader.read(), 20)).split(b"HTTP/1.1 ")
        writer.close()
        return [answer[:3] for answer in answers[1:]]

    assert asyncio.run(talk()) == [b"200", b"200", b"200"]


def test_figures_move(server: Simulated, client: httpx.Client) -> None:
    before = server.figures()
    usage = server.chat(client, "Some words for the figures").json()["usage"]
    after = server.figures()
    for name, key in (("prompt_tokens_total", "prompt_tokens"), ("generation_tokens_total", "completion_tokens")):
        assert after[f"vllm:{name}"] - before[f"vllm:{name}"] == usage[key]
    assert after["vllm:e2e_request_latency_seconds_count"] == before["vllm:e2e_request_latency_seconds_count"] + 1


def test_the_names_of_figures_are_those_of_a_real_server(server: Simulated) -> None:
    real = {
        row.split("{")[0]
        for row in (Path(__file__).parents[1] / "facts" / "vllm_metrics_0.32.txt").read_text().splitlines()
    }
    page = httpx.get(f"{server.url}/metrics", trust_env=False).text
    ours = {line.split("{")[0] for line in page.splitlines() if line.startswith("vllm:")}
    assert ours <= real
    assert {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} <= ours
    assert 'vllm:num_requests_running{engine="0",model_name="writer"} 0.0' in page


def test_slots_and_the_queue(tmp_path: Path) -> None:
    words = ("--max-num-seqs=2", "--max-num-queued-reqs=1")
    with simulated(tmp_path, *words, told={"stalled": True}) as server, server.client() as client:

        async def ask(count: int) -> None:
            async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as many:
                asked = [asyncio.create_task(many.post("/v1/completions", json={"prompt": "a"})) for _ in range(count)]
                while server.figures()["vllm:num_requests_waiting"] < 1:
                    await asyncio.sleep(0.02)
                figures = server.figures()
                assert figures["vllm:num_requests_running"] == 2
                assert figures["vllm:kv_cache_usage_perc"] == 1
                refused = await many.post("/v1/completions", json={"prompt": "a"})
                assert refused.status_code == 503
                for one in asked:
                    one.cancel()

        asyncio.run(ask(3))
        until(lambda: client.get("/load").json() == {"server_load": 0})  # nobody waits for them any more
        assert 'finished_reason="abort",model_name="org/model"} 3.0' in client.get("/metrics").text


def test_a_slot_is_free_again(tmp_path: Path) -> None:
    with simulated(tmp_path, "--max-num-seqs=1") as server, server.client(timeout=5) as client:
        assert [server.chat(client, str(number)).status_code for number in range(3)] == [200] * 3
