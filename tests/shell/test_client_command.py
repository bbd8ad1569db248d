import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.client_spec import Prepared
from core.result import judge
from shell.client.files import observe
from tests.shell.client_world import ROOT, TOKEN, World, read_line

ROWS = 'i=0; while [ $i -lt $DD_SLURM_NUM_RECORDS ]; do echo "{\\"n\\": $i, \\"text\\": \\"x\\"}"; i=$((i+1)); done'
WRITE = f'({ROWS}) > "$DD_SLURM_OUTPUT_DIR/rows.jsonl"'


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def gone(pid: int) -> bool:
    """Whether a process has ended; waits for it within a generous bound."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_program_that_writes_its_rows_is_claimed(world: World) -> None:
    world.command("sh", "-c", f'{WRITE}; echo note > "$DD_SLURM_OUTPUT_DIR/notes.txt"', records=5)
    assert world.run() == 0, world.log
    assert isinstance(world.preparation(), Prepared)
    claim = world.claim()
    assert [(file.path, file.rows) for file in claim.files] == [("notes.txt", None), ("rows.jsonl", 5)]
    assert [(column.name, column.type) for column in claim.columns] == [("n", "integer"), ("text", "string")]
    assert (world.progress().records_done, world.progress().records_wanted) == (5, 5)
    assert judge(claim, observe(str(world.output), [file.path for file in claim.files]), 5) == ()
    assert not world.has("error")


def test_the_program_is_told_where_the_models_are(world: World) -> None:
    world.command("sh", "-c", f'env > "$DD_SLURM_OUTPUT_DIR/env.txt"; {WRITE}', records=7, shards=2, shard=1)
    assert world.run() == 0, world.log
    told = dict(line.split("=", 1) for line in (world.output / "env.txt").read_text().splitlines() if "=" in line)
    assert told["OPENAI_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert told["OPENAI_API_KEY"] == TOKEN
    assert (told["DD_SLURM_SHARD"], told["DD_SLURM_SHARD_COUNT"]) == ("1", "2")
    assert (told["DD_SLURM_RECORD_OFFSET"], told["DD_SLURM_NUM_RECORDS"]) == ("4", "3")
    assert "127.0.0.1" in told["NO_PROXY"].split(",")
    entries = json.loads(Path(told["DD_SLURM_ENDPOINTS"]).read_text())
    assert entries["writer"]["model"] == "served-writer"
    assert Path(entries["writer"]["token_file"]).read_text().strip() == TOKEN


def test_with_two_models_no_single_one_is_named(world: World) -> None:
    world.command("sh", "-c", f'env > "$DD_SLURM_OUTPUT_DIR/env.txt"; {WRITE}', aliases=("writer", "judge"))
    assert world.run(OPENAI_BASE_URL="http://elsewhere/v1") == 0, world.log
    assert "OPENAI_BASE_URL=http://127" not in (world.output / "env.txt").read_text()
    assert world.spec is not None
    entries = json.loads((world.folder / "endpoints.json").read_text())
    assert sorted(entries) == ["judge", "writer"]
    assert TOKEN not in (world.folder / "endpoints.json").read_text()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("true", "none of the files"),
        ('echo x > "$DD_SLURM_OUTPUT_DIR/rows.txt"', "none of the files"),
        (f"DD_SLURM_NUM_RECORDS=3; {WRITE}", "3 records instead of 4"),
        ('mkfifo "$DD_SLURM_OUTPUT_DIR/rows.csv"', "none of the files"),
        ('printf PAR1junk > "$DD_SLURM_OUTPUT_DIR/rows.parquet"', "none of the files"),
    ],
)
def test_exit_zero_without_a_whole_result_is_a_failure(world: World, script: str, said: str) -> None:
    world.command("sh", "-c", script)
    assert world.run() == 75
    assert said in world.error().message


def test_a_program_that_fails_is_reported_with_its_code(world: World) -> None:
    world.command("sh", "-c", f"{WRITE}; exit 3")
    assert world.run() == 75
    assert world.error().said == "'sh' ended with exit code 3"
    assert not world.has("claim")


def test_a_signal_that_ended_a_program_is_named(world: World) -> None:
    world.command("sh", "-c", "kill -TERM $$")
    assert world.run() == 128 + signal.SIGTERM
    assert world.error().said == "'sh' was killed by signal 15 (SIGTERM)"
    assert "\n'sh' was killed by signal 15 (SIGTERM)\n" in f"\n{world.log.decode()}"


def test_a_program_that_does_not_exist_is_refused_before_the_start(world: World) -> None:
    world.command("no-such-program-here")
    assert world.run() == 78
    assert world.refusals() == [("path-unusable", "client.command[0]")]


def test_a_program_beside_the_run_file_is_found_from_anywhere(world: World) -> None:
    script = world.folder / "make.sh"
    script.write_text(f"#!/bin/sh\n{WRITE}\n")
    script.chmod(0o755)
    world.command("./make.sh")
    assert world.run() == 0, world.log


def test_without_the_word_go_nothing_is_run(world: World) -> None:
    world.command("sh", "-c", WRITE)
    with world.start() as client:
        assert client.stdin is not None
        client.stdin.close()
        assert client.wait(30) == 75
    assert isinstance(world.preparation(), Prepared)
    assert list(world.output.iterdir()) == []


def test_term_is_passed_on_and_nothing_is_left(world: World) -> None:
    world.command("sh", "-c", "trap 'echo got-term; exit 9' TERM; sleep 300 & echo pids $$ $!; wait")
    with world.start() as client:
        assert client.stdin is not None
        client.stdin.write(b"go\n")
        client.stdin.flush()
        pids = [int(pid) for pid in read_line(client, b"pids").split()[1:]]
        client.send_signal(signal.SIGTERM)
        assert read_line(client, b"got-term")
        assert client.wait(30) == 75
    assert all(gone(pid) for pid in pids)


STARTER = """
import subprocess, sys, time
client = subprocess.Popen([sys.executable, "-m", "shell.client", "--spec", sys.argv[1]], stdin=subprocess.PIPE)
client.stdin.write(b"go\\n")
client.stdin.flush()
print("guard", client.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["guard", "worker", "starter"])
def test_killing_any_process_of_the_client_or_its_starter_leaves_none(world: World, victim: str) -> None:
    world.command("sh", "-c", "setsid sleep 300 & echo pids $PPID $$ $!; wait")
    argv = [sys.executable, "-c", STARTER, str(world.folder / "client.json")]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as starter:
        try:
            guard = int(read_line(starter, b"guard").split()[1])
            worker, *others = [int(pid) for pid in read_line(starter, b"pids").split()[1:]]
            os.kill({"guard": guard, "worker": worker, "starter": starter.pid}[victim], signal.SIGKILL)
            assert all(gone(pid) for pid in (guard, worker, *others))
        finally:
            starter.kill()
