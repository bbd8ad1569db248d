"""The stand-in's command line: it takes what vLLM takes, and refuses what vLLM refuses."""

from pathlib import Path

import pytest

from shell.simulate.meeting import place_of, served_ranks
from shell.simulate.options import UsageError, parse
from shell.simulate.refusals import refusal

TESTS = Path(__file__).parents[1]
TP2_NODES2 = "--tensor-parallel-size=2 --nnodes=2 --master-addr=10.0.0.1 --master-port=29701"
DP4_LOCAL2 = "-dp 4 -dpl 2 --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 29650"


def refused(words: str) -> str:
    return refusal(parse(["serve", "m", *words.split()])) or ""


def golden_commands() -> list[tuple[str, list[str]]]:
    """The command of every server of every golden plan; job steps stand there too."""
    found = []
    for path in sorted((TESTS / "golden").glob("*/steps.txt")):
        words: list[str] = []
        for line in [*path.read_text().splitlines(), ""]:
            if line.startswith("    "):
                words.append(line.strip())
            elif words:
                serves = "serve" in words and words[0] != "srun"
                found += [(path.parent.name, words[words.index("serve") :])] if serves else []
                words = []
    return found


def test_every_command_of_every_golden_plan_starts() -> None:
    commands = golden_commands()
    assert len(commands) > 50
    assert [(name, told) for name, words in commands if (told := refusal(parse(words)))] == []


def test_every_flag_of_a_real_release_is_known() -> None:
    flags = (TESTS / "facts" / "vllm_serve_flags_0.32.txt").read_text().split()
    assert len(flags) > 250
    for flag in set(flags) - {"--help"}:
        assert flag in parse(["serve", "m", flag]).given


def test_a_flag_that_no_release_has_is_refused() -> None:
    with pytest.raises(UsageError, match="unrecognized arguments: --such-a --no-such-b=3"):
        parse(["serve", "m", "--such-a", "--no-such-b=3", "--port=1"])


@pytest.mark.parametrize(
    "words", ["--port=80 m", "m --port 80", "--enforce-eager m --port=80", "--model m --port 80", "--port 80 m"]
)
def test_the_model_is_found_wherever_it_stands(words: str) -> None:
    options = parse(["serve", *words.split()])
    assert (options.model, options.number("--port", 0)) == ("m", 80)


def test_forms_of_flags() -> None:
    words = "m --served-model-name a b -tp=2 -dpr 1 --max_num_seqs=3 --no-enable-prefix-caching -O3 -cc.mode=2".split()
    options = parse(["serve", *words])
    assert options.names == ("a", "b")
    assert options.number("--tensor-parallel-size", 1) == 2
    assert options.number("--data-parallel-start-rank", 0) == 1
    assert options.number("--max-num-seqs", 0) == 3
    assert "--no-enable-prefix-caching" in options.given


@pytest.mark.parametrize(
    ("word", "expected"), [("4096", 4096), ("8k", 8000), ("8K", 8192), ("1.5k", 1500), ("auto", 32768), ("-1", 32768)]
)
def test_lengths_of_a_model(word: str, expected: int) -> None:
    assert parse(["serve", "m", "--max-model-len", word]).longest == expected


def test_a_length_that_is_none() -> None:
    with pytest.raises(UsageError, match="--max-model-len: invalid human_readable_int value: 'long'"):
        refused("--max-model-len=long")


def test_numbers_that_are_read_late_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="argument --port: invalid int value: 'x'"):
        parse(["serve", "m", "--port=x"])


def test_a_number_that_is_none() -> None:
    with pytest.raises(UsageError, match="argument --port: invalid int value: 'http'"):
        parse(["serve", "m", "--port=http"]).number("--port", 1)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--nnodes 2", "must evenly divide the total world size (1)"),
        ("--nnodes 2 -pp 3", "must evenly divide the total world size (3)"),
        ("--nnodes 2 -tp 2 --node-rank 2 --headless", "must be between 0 and 1"),
        ("--nnodes 2 -tp 2 --node-rank 1", "follower node"),
        ("--nnodes 4 -dp 2 -tp 2 --node-rank 3", "follower node"),
        ("--nnodes 2 -tp 2 --distributed-executor-backend ray", "nnodes > 1"),
        ("--nnodes 0", "greater than or equal to 1"),
        ("-pp 2 --distributed-executor-backend uni", "Pipeline Parallelism"),
        ("-dp 2 -dpl 3", "must be <= 2"),
        ("-dp 2 --data-parallel-hybrid-lb", "requires `--data-parallel-size-local`"),
        ("--headless --api-server-count 2", "headless"),
    ],
)
def test_what_vllm_refuses(words: str, part: str) -> None:
    assert part in refused(words)


@pytest.mark.parametrize(
    "words",
    ["", "-tp 2", "-pp 3", "--node-rank 1", "--nnodes 2 -dp 2 --node-rank 1", "--nnodes 4 -dp 2 -tp 2 --node-rank 2"],
)
def test_what_vllm_takes(words: str) -> None:
    assert refused(words) == ""


def test_more_ranks_than_visible_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert refused("-tp 2") == ""
    assert "World size (4) is larger" in refused("-tp 4")
    assert refused("-tp 4 --nnodes 2") == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-tp 8", None),
        ("-dp 2", None),
        (f"{TP2_NODES2} --node-rank=0", (0, 1, "10.0.0.1", 29701)),
        (f"{TP2_NODES2} --node-rank=1 --headless", (1, 1, "10.0.0.1", 29701)),
        (DP4_LOCAL2, (0, 1, "10.0.0.1", 29650)),
        (f"{DP4_LOCAL2} -dpr 2 --headless", (1, 1, "10.0.0.1", 29650)),
        ("-dp 4 --data-parallel-rank 3 --data-parallel-address h", (3, 3, "h", 29550)),
    ],
)
def test_where_processes_meet(words: str, expected: tuple[object, ...] | None) -> None:
    place = place_of(parse(["serve", "m", *words.split()]))
    assert (place and (place.rank, place.others, place.address, place.port)) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [0]),
        ("-dp 3", [0, 1, 2]),
        (DP4_LOCAL2, [0, 1, 2, 3]),
        (f"{DP4_LOCAL2} -dpr 2", [2, 3]),
        (f"{DP4_LOCAL2} --data-parallel-hybrid-lb -dpr 0", [0, 1]),
        ("-dp 4 --data-parallel-rank 3 --data-parallel-address h", [3]),
    ],
)
def test_which_data_parallel_ranks_an_api_serves(words: str, expected: list[int]) -> None:
    options = parse(["serve", "m", *words.split()])
    assert list(served_ranks(options, place_of(options))) == expected
