"""Rules that cross fields: one small change to a good file, and what is said about it."""

import copy
import json
from collections.abc import Iterator

import pytest
from returns.pipeline import is_successful
from typing_extensions import override

from core.config.located import LineOf, Located
from core.config.read import read_run_file
from core.outcome import problems_of
from core.problem import Problems
from core.report import as_text, report

DEPENDENCIES = "client.dependencies"
NEEDS = "client.dependencies.requirements"
TOOLS = "invocation.mcp_providers"
WHEEL = "x @ https://w.example.org/x-1-py3-none-any.whl#sha256=" + "a" * 64
SECRET = {"type": "secret", "environment": "MY_TOKEN"}
GOOD: dict[str, object] = {
    "schema_version": 1,
    "name": "run",
    "builder": {"source": "columns.yaml"},
    "invocation": {"num_records": 10},
    "deployments": [
        {"model_alias": "writer", "model": "lab/writer"},
        {"model_alias": "judge", "model": "/models/judge"},
    ],
}


def found(patch: dict[str, object]) -> Problems:
    """Problems of the good file with some values changed; a path such as ``deployments.0.model`` is a key."""
    document: dict[str, object] = copy.deepcopy(GOOD)
    for path, value in patch.items():
        put(document, path.split("."), value)
    return problems_of(read_run_file("run.json", json.dumps(document, indent=1).encode()))


def said(patch: dict[str, object]) -> list[tuple[str, str]]:
    return [(item.code, item.path) for item in map(report, found(patch))]


def put(document: object, path: list[str], value: object) -> None:
    table = document
    for key in path[:-1]:
        table = (
            table[int(key)] if isinstance(table, list) else table.setdefault(key, {}) if isinstance(table, dict) else {}
        )
    if isinstance(table, list):
        table[int(path[-1])] = value
    elif isinstance(table, dict) and value is not ...:
        table[path[-1]] = value
    elif isinstance(table, dict):
        table.pop(path[-1], None)


def test_the_good_file_is_good() -> None:
    assert said({}) == []


WRONG, BAD, TWICE = "wrong-combination", "malformed", "not-unique"
SECRET_LITERAL, OURS, NO_NAME = "secret-literal", "owned-by-planner", "unknown-name"


def literal(value: str) -> dict[str, str]:
    return {"type": "literal", "value": value}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        # what the client runs
        ({"builder": ...}, [(WRONG, "builder")]),
        ({"builder": {}}, [(WRONG, "builder")]),
        ({"builder.inline": {"columns": []}}, [(WRONG, "builder")]),
        ({"client.command": ["python", "x.py"]}, [(WRONG, "builder")]),
        ({"builder": ..., "client.command": ["python", "x.py"]}, []),
        ({"builder": ..., "client.command": ["sh", "-c", "echo ${HOME}"]}, []),
        ({"builder": ..., "client.command": ["x", "--api-key=abc"]}, [(SECRET_LITERAL, "client.command[1]")]),
        ({"builder": ..., "client.command": ["x", "--api-key", "abc"]}, [(SECRET_LITERAL, "client.command[1]")]),
        ({"builder": ..., "client.command": ["sh", "-c", "x --api-key=$KEY"]}, []),
        ({"builder": ..., "client.command": ["x", "--api-key=$KEY", "--use-auth"]}, []),
        ({"builder": ..., "invocation": ..., "client.command": ["x"]}, []),
        ({"builder": ..., "invocation": ..., "client.command": ["x"], "array_tasks.count": 2},
         [(WRONG, "array_tasks.count")]),
        ({"invocation": ...}, [("missing-field", "")]),
        ({"builder.source": "https://example.org/x.yaml"}, [(BAD, "builder.source")]),
        ({"builder.source": "../x.yaml"}, [(BAD, "builder.source")]),
        ({"builder.source": "x.py"}, [(BAD, "builder.source")]),
        ({"builder.source": "/abs/below.json"}, []),
        ({"builder": {"inline": {"columns": [{"prompt": "${x} is fine"}]}}}, []),
        ({"builder": {"inline": {"data_designer": {}, "library_version": "0.9"}}}, []),
        ({"builder": {"inline": {"data_designer": {}, "more": 1}}}, [(BAD, "builder.inline")]),
        ({"builder": {"inline": {"column": []}}}, [(BAD, "builder.inline")]),
        ({"builder": {"inline": "columns.yaml"}}, [(BAD, "builder.inline")]),
        ({"builder": {"inline": {"columns": [], "p": [{"api_key": "abc"}]}}},
         [(SECRET_LITERAL, "builder.inline.p[0].api_key")]),
        ({"builder": {"inline": {"columns": [{"schema": {"password": {"type": "string"}}}]}}}, []),
        # what it is asked to make
        ({"invocation.run_config": [1]}, [(BAD, "invocation.run_config")]),
        ({"invocation.model_concurrency": {"writer": 4, "judge": 1}}, []),
        ({"invocation.model_concurrency": {"wirter": 4}}, [(NO_NAME, "invocation.model_concurrency.wirter")]),
        (
            {
                "builder": {"inline": {"columns": [], "model_configs": [{"alias": "far"}]}},
                "invocation.model_concurrency": {"far": 4},
            },
            [],
        ),
        ({"array_tasks.count": 10}, []),
        ({"array_tasks.count": 11}, [("too-many-shards", "array_tasks.count")]),
        ({"array_tasks": {"count": 3, "max_concurrent": 4}}, [(WRONG, "array_tasks.max_concurrent")]),
        ({"submission.partition": "a,b,a"}, [(TWICE, "submission.partition")]),
        ({"submission.partition": ["a", "b", "b"]}, [(TWICE, "submission.partition")]),
        ({"submission.time_limit": "00:05:00"}, []),
        ({"submission.time_limit": "00:05:00", "on_time_limit": {"resume": "auto"}}, [(WRONG, "on_time_limit.margin")]),
        ({"submission.time_limit": "00:00:00", "on_time_limit": {"resume": "auto"}}, []),
        # tools
        ({TOOLS: [{"provider_type": "sse", "name": "a", "endpoint": "https://u:p@x.org/"}]},
         [(SECRET_LITERAL, f"{TOOLS}[0].endpoint")]),
        ({TOOLS: [{"provider_type": "sse", "name": "a", "endpoint": "https://x.org/?k=1"}]},
         [(BAD, f"{TOOLS}[0].endpoint")]),
        ({TOOLS: [{"provider_type": "sse", "name": "a", "endpoint": "https://x.org/#f"}]},
         [(BAD, f"{TOOLS}[0].endpoint")]),
        ({TOOLS: [{"provider_type": "sse", "name": "a", "endpoint": "ftp://x.org/"}]},
         [(BAD, f"{TOOLS}[0].endpoint")]),
        ({TOOLS: [{"provider_type": "sse", "name": "a", "endpoint": "https://x.org:99999/"}]},
         [(BAD, f"{TOOLS}[0].endpoint")]),
        ({TOOLS: [{"provider_type": "sse", "name": "a", "endpoint": "http://[x/"}]},
         [(BAD, f"{TOOLS}[0].endpoint")]),
        ({TOOLS: [{"provider_type": "stdio", "name": "a", "command": "x", "args": ["--token=abc"]}]},
         [(SECRET_LITERAL, f"{TOOLS}[0].args[0]")]),
        ({TOOLS: [{"provider_type": "stdio", "name": "a", "command": "x", "environment":
            {"A_TOKEN": literal("abc"), "B_TOKEN": SECRET}}]},
         [(SECRET_LITERAL, f"{TOOLS}[0].environment.A_TOKEN")]),
        ({TOOLS: [{"provider_type": "stdio", "name": "a", "command": "x"},
                                       {"provider_type": "sse", "name": "a", "endpoint": "https://x.org"}]},
         [(TWICE, f"{TOOLS}[1].name")]),
        # what it needs
        ({NEEDS: ["pandas>=2", "my-x[a]==1", WHEEL]}, []),
        ({NEEDS: ["My_Package", "my.package>1"]}, [(TWICE, f"{NEEDS}[1]")]),
        ({NEEDS: ["x; python_version<'3.12'"]}, [(BAD, f"{NEEDS}[0]")]),
        ({NEEDS: ["git+https://x.org/y"]}, [(BAD, f"{NEEDS}[0]")]),
        ({NEEDS: ["y @ git+https://x.org/y"]}, [(BAD, f"{NEEDS}[0]")]),
        ({NEEDS: ["x; " + "(" * 20_000]}, [(BAD, f"{NEEDS}[0]")]),
        ({NEEDS: ["./y"]}, [(BAD, f"{NEEDS}[0]")]),
        ({NEEDS: [WHEEL[:-1]]}, [(BAD, f"{NEEDS}[0]")]),
        ({NEEDS: [WHEEL.replace("https", "http")]}, [(BAD, f"{NEEDS}[0]")]),
        ({DEPENDENCIES: {"requirements": None, "lock_file": "lock.json"}}, []),
        ({DEPENDENCIES: {"lock_file": "lock.json"}}, []),
        ({DEPENDENCIES: {"lock_file": "lock.txt"}}, [(BAD, f"{DEPENDENCIES}.lock_file")]),
        ({DEPENDENCIES: {"lock_file": "l.json", "requirements": ["x"]}}, [(WRONG, f"{DEPENDENCIES}.lock_file")]),
        ({"client.image": {"name": "a", "path": "/b.sqsh"}}, [(WRONG, "client.image")]),
        ({"client.image": "/b.sqsh"}, []),
        # deployments
        ({"deployments.1.model_alias": "writer"}, [(TWICE, "deployments[1].model_alias")]),
        ({"deployments.0.model": "./writer"}, [(BAD, "deployments[0].model")]),
        ({"deployments.0.model": "~/writer"}, [(BAD, "deployments[0].model")]),
        ({"deployments.0.model": "-x"}, [(BAD, "deployments[0].model")]),
        ({"deployments.0.model": "lab/my writer"}, [(BAD, "deployments[0].model")]),
        ({"deployments.0.model": "/models/my writer"}, []),
        ({"deployments.0.model": "s3://bucket/writer"}, []),
        ({"deployments.0.served_model_name": "--help"}, [(BAD, "deployments[0].served_model_name")]),
        ({"deployments.0.min_ready_replicas": 0}, [(BAD, "deployments[0].min_ready_replicas")]),
        ({"deployments.0.server.image": {}}, [(WRONG, "deployments[0].server.image")]),
        ({"deployments.0.server.image": {"name": "a", "path": "/b"}}, [(WRONG, "deployments[0].server.image")]),
        ({"deployments.0.server.vllm_version": "1" * 5000}, [(BAD, "deployments[0].server.vllm_version")]),
        ({"deployments.0.server.vllm_version": "0.32.0+cpu"}, []),
        ({"deployments.0.server.vllm_version": "newest"}, [(BAD, "deployments[0].server.vllm_version")]),
        ({"deployments.0.server": {"startup_timeout": "9m"}},
         [(WRONG, "deployments[0].server.distributed_init_timeout")]),
        ({"deployments.0.server": {"startup_timeout": "600s", "distributed_init_timeout": "10m"}}, []),
        ({"deployments.0.on_failure.backoff": "0s"}, [(BAD, "deployments[0].on_failure.backoff")]),
        # shares of a node
        ({"deployments.0.resources.shared_node": "a"}, [(WRONG, "deployments[0].resources.shared_node"),
                                                        (WRONG, "deployments[1].resources")]),
        ({"deployments.0.resources.gpus_per_node": 4}, [(WRONG, "deployments[0].resources.gpus_per_node")]),
        ({"deployments.0.resources.gpu_start_index": 4}, [(WRONG, "deployments[0].resources.gpu_start_index")]),
        # the budget
        ({"gpu_budget": 8}, []),
        ({"gpu_budget": 8, "deployments.1.resources": {"nodes": 1}}, [(WRONG, "deployments[1].resources")]),
        ({"gpu_budget": 0}, [(BAD, "gpu_budget")]),
        # environment variables of the submitter
        ({"name": "${USER}"}, [("forbidden-syntax", "name"), (BAD, "name")]),
        ({"submission.comment": "by ${USER}"}, [("forbidden-syntax", "submission.comment")]),
        ({"invocation.run_config": {"a": ["${X}"]}}, [("forbidden-syntax", "invocation.run_config.a[0]")]),
        ({"submission.comment": "$5 and {x} and $(date)"}, []),
    ],
)  # fmt: skip
def test_a_rule(patch: dict[str, object], expected: list[tuple[str, str]]) -> None:
    assert said(patch) == expected


def shared(*changes: dict[str, object]) -> list[tuple[str, str]]:
    share = {"shared_node": "n", "gpus_per_node": 4}
    deployments = [
        {"model_alias": f"m{index}", "model": "lab/m", "resources": share} | change
        for index, change in enumerate(changes)
    ]
    return said({"deployments": deployments})


def test_shared_nodes() -> None:
    env = {"environment": {"A": literal("1"), "B": literal("2")}}
    same = {"environment": {"B": literal("2"), "A": literal("1")}}
    assert shared({}, {}) == []
    assert shared({"server": env}, {"server": same}) == []
    assert shared({}) == [(WRONG, "deployments[0].resources.shared_node")]
    assert shared({"server": env}, {}) == [(WRONG, "deployments[1].server.environment")]
    assert shared({}, {"server": {"queue_backpressure": {"max_waiting_requests": 1}}}) == [
        (WRONG, "deployments[1].server.queue_backpressure")
    ]
    assert shared({}, {"resources": {}}) == [(WRONG, "deployments[1].resources")]
    other = {"shared_node": "o", "gpus_per_node": 4}
    assert shared({}, {"resources": other}) == [(WRONG, "deployments[1].resources")]
    two = {"shared_node": "n", "gpus_per_node": 4, "nodes": 2}
    assert shared({}, {"resources": two}) == [(WRONG, "deployments[1].resources.nodes")]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--max-model-len=8192", "--seed", "1", "--enable-prefix-caching"], []),
        (["--override-generation-config", '{"max_new_tokens": 5}'], []),
        (["--long-prefill-token-threshold=5", "--tokens-only", "--allow-credentials"], []),
        (["--reasoning-parser=qwen3", "--config-format=auto", "--max-lora-rank=16"], []),
        (["--speculative-config.num_speculative_tokens=5"], []),
        (["--tensor-parallel-size=2"], [(OURS, 0)]),
        (["--tensor_parallel_size", "2"], [(OURS, 0)]),
        (["--tensor=2"], [(OURS, 0)]),
        (["--no-enable-expert-parallel"], [(OURS, 0)]),
        (["--no-enable-exp"], [(OURS, 0)]),
        (["--kv-transfer-config.kv_role=x"], [(OURS, 0)]),
        (["--data-parallel-anything-new=1"], [(OURS, 0)]),
        (["--PORT=80"], [(OURS, 0)]),
        (["--ssl-keyfile=/x", "--host=0.0.0.0", "--api-key=abc"], [(OURS, 0), (OURS, 1), (OURS, 2)]),
        (["--max-model-len=1", "--max_model_len=2"], [(TWICE, 1)]),
        (["--enforce-eager", "--no-enforce-eager"], [(TWICE, 1)]),
        (["--compilation-config.level=3", "--compilation-config.mode=2"], []),
        (["-tp", "2"], [(BAD, 0)]),
        (["-O3"], [(BAD, 0)]),
        (["--seed", "-1"], [(BAD, 1)]),
        (["--"], [(BAD, 0)]),
        (["--seed 1"], [(BAD, 0)]),
        (["--=1"], [(BAD, 0)]),
        (["lab/other", "--seed=1"], [(BAD, 0)]),
        (["--hf-token=abc"], [(SECRET_LITERAL, 0)]),
        (["--hf-token", "abc"], [(SECRET_LITERAL, 0)]),
        (["--hf_token=abc"], [(SECRET_LITERAL, 0)]),
        (['--model-loader-extra-config={"a": [{"api_key": "abc"}]}'], [(SECRET_LITERAL, 0)]),
        (['--model-loader-extra-config={"use_auth": "true"}'], []),
        (["--otlp-traces-endpoint=https://me:abc@traces.example.org"], [(SECRET_LITERAL, 0)]),
        (["--revision=hf_abcdefghijklmnopqrstuvwxyz"], [(SECRET_LITERAL, 0)]),
    ],
)  # fmt: skip
def test_arguments(args: list[str], expected: list[tuple[str, int]]) -> None:
    answer = said({"deployments.0.server.extra_args": args})
    assert answer == [(code, f"deployments[0].server.extra_args[{index}]") for code, index in expected]


def test_an_owned_flag_comes_with_the_field_to_use() -> None:
    arguments = {"extra_args": ["--tensor-paral=4", "--served-model-name=x"]}
    document = GOOD | {"deployments": [{"model_alias": "w", "model": "lab/w", "server": arguments}]}
    texts = [as_text(problem) for problem in problems_of(read_run_file("r.json", json.dumps(document).encode()))]
    assert "use topology.tensor_parallel (the flag is short for --tensor-parallel-size)" in texts[0]
    assert "use served_model_name of the deployment" in texts[1]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PYTHONPATH", literal("/x"), None),
        ("MAX_TOKENS", literal("5"), None),
        ("TOKENIZERS_PARALLELISM", literal("false"), None),
        ("NCCL_DEBUG", literal("INFO"), None),
        ("VLLM_LOGGING_LEVEL", literal("DEBUG"), None),
        ("HF_HOME", literal("/models/hub"), None),
        ("DISABLE_AUTH", literal("1"), None),
        ("DD_SLURM_SIMULATE_LATENCY", literal("5"), None),
        ("HF_TOKEN", SECRET, None),
        ("HF_TOKEN", literal("hf"), SECRET_LITERAL),
        ("aws_secret_access_key", literal("x"), SECRET_LITERAL),
        ("WANDB_API_KEY", literal("x"), SECRET_LITERAL),
        ("dbPassword", literal("x"), SECRET_LITERAL),
        ("SOMETHING", literal("sk-abcdefghijklmnopqrstuvwx"), SECRET_LITERAL),
        ("HTTPS_PROXY", literal("http://me:abc@proxy:3128"), SECRET_LITERAL),
        ("HTTPS_PROXY", literal("http://proxy:3128"), None),
        ("CUDA_VISIBLE_DEVICES", literal("0"), OURS),
        ("MASTER_ADDR", literal("x"), OURS),
        ("MASTER_ANYTHING", literal("x"), OURS),
        ("RANK", literal("0"), OURS),
        ("VLLM_PORT", literal("0"), OURS),
        ("VLLM_HOST_IP", literal("0"), OURS),
        ("VLLM_API_KEY", SECRET, OURS),
        ("VLLM_CACHE_ROOT", literal("/x"), OURS),
        ("VLLM_DP_SIZE", literal("2"), OURS),
        ("SLURM_JOB_ID", literal("2"), OURS),
        ("DD_SLURM_RUN", literal("2"), OURS),
    ],
)
def test_environment(name: str, value: dict[str, str], expected: str | None) -> None:
    answer = said({"deployments.0.server.environment": {name: value}})
    assert answer == ([(expected, f"deployments[0].server.environment.{name}")] if expected else [])


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"invocation.num_records": 0, "array_tasks.count": 5}, [(BAD, "invocation.num_records")]),
        ({"invocation.num_records": 3, "array_tasks.cuont": 5}, [("unknown-field", "array_tasks.cuont")]),
        ({"deployments.0.server": {"startup_timeout": "5 min", "distributed_init_timeout": "1h"}},
         [(BAD, "deployments[0].server.startup_timeout")]),
        ({"deployments.0.model_alias": 5, "invocation.model_concurrency": {"writer": 1}},
         [(BAD, "deployments[0].model_alias")]),
        ({"deployments.0.resources": 5, "deployments.1.resources": {"shared_node": "a", "gpus_per_node": 1}},
         [(BAD, "deployments[0].resources")]),
        ({"builder": 5}, [(BAD, "builder")]),
        ({"client.command": 5}, [(BAD, "client.command")]),
        ({"submission.time_limit": "x", "on_time_limit.margin": "1d"}, [(BAD, "submission.time_limit")]),
    ],
)  # fmt: skip
def test_a_rule_does_not_judge_what_could_not_be_read(
    patch: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    assert said(patch) == expected


@pytest.mark.parametrize(
    ("patch", "shown", "hidden"),
    [
        ({"builder": {"inline": {"column": []}}}, "a mapping without a list of columns", ""),
        ({"builder": {"inline": {"data_designer": {}, "x": 1}}}, "other fields beside data_designer", ""),
        ({NEEDS: ["git+https://me:sesame@x.org/y"]}, "an address, which is not a requirement", "sesame"),
        ({NEEDS: ["y @ https://me:sesame@x.org/y.whl"]}, "'y' from an address that is not an https wheel", "sesame"),
        ({NEEDS: ["not a requirement"]}, "'not a requirement', which is not a requirement", ""),
        ({"deployments.0.server.extra_args": ["-p=sesame"]}, "the short flag '-p …'", "sesame"),
        ({"deployments.0.server.extra_args": ["--max-model-len sesame"]}, "'--max-model-len …'", "sesame"),
    ],
)
def test_what_was_found_is_said_without_secrets(patch: dict[str, object], shown: str, hidden: str) -> None:
    text = "\n".join(map(as_text, found(patch)))
    assert shown in text
    assert not hidden or hidden not in text


def test_form_and_rules_are_reported_together() -> None:
    patch: dict[str, object] = {
        "deployments.1.model_alias": "writer",
        "deployments.0.server": {"extra_args": ["--port=1"], "startup_timeout": 5},
        "array_tasks.count": 50,
        "naem": 1,
    }
    assert {code for code, _ in said(patch)} == {TWICE, OURS, BAD, "too-many-shards", "unknown-field"}


def test_a_good_file_gives_the_value_and_its_lines() -> None:
    outcome = read_run_file("run.json", json.dumps(GOOD, indent=1).encode())
    assert is_successful(outcome)
    assert outcome.unwrap().at("deployments[1].server.image").line == 15


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"deployments.0.resources.nodes": 1_000_000_000}, "deployments[0].resources.nodes"),
        ({"gpu_budget": 1_000_000_000}, "gpu_budget"),
        ({"deployments.0.resources": {"shared_node": "a", "gpus_per_node": 10**12}},
         "deployments[0].resources.gpus_per_node"),
    ],
)  # fmt: skip
def test_what_no_cluster_has_is_refused_before_it_is_planned(patch: dict[str, object], path: str) -> None:
    assert (BAD, path) in said(patch)


class NeverReadThrough(tuple[LineOf, ...]):
    """Lines that may be looked up but not gone through: many deployments have many rules, each with a place."""

    @override
    def __iter__(self) -> Iterator[LineOf]:
        raise AssertionError("gone through")


def test_a_place_is_looked_up() -> None:
    paths = ["", "a", "a.b", "a[0]", "a[10]", "a[2]", "b"]
    located = Located(
        value=None, source="f", lines=NeverReadThrough(LineOf(path=p, line=n) for n, p in enumerate(paths))
    )
    assert [located.at(path).line for path in paths] == list(range(len(paths)))
    assert [located.at(path).line for path in ("a[2].x.y", "a[1]", "c.d", "ab")] == [5, 1, 0, 0]
