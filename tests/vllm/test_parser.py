"""Every `vllm serve` command of the golden plans, put to the parser of a real vLLM.

DD_SLURM_VLLM_PYTHON names the Python of its environment.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from core.plan.bound import BoundPlan
from core.plan.steps import lanes_on, steps_of
from core.vllm.serve_args import serve_argv

pytestmark = pytest.mark.vllm

ACCEPTS = Path(__file__).with_name("accepts.py")
GOLDEN = Path(__file__).parents[1] / "golden"
PYTHON = "DD_SLURM_VLLM_PYTHON"
PATIENCE_S = 900
"""vLLM alone takes a quarter of a minute to be imported, and much longer on a busy machine."""


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every process of every golden plan: case and process, and the words after `vllm serve`."""
    for path in sorted(GOLDEN.glob("*/bound.json")):
        plan = msgspec.json.decode(path.read_bytes(), type=BoundPlan)
        for step in steps_of(plan):
            for slot in step.slots:
                for lane in lanes_on(plan, step.name, plan.nodes[slot].name):
                    argv = serve_argv(plan, lane)
                    yield f"{path.parent.name}:{lane.name}", argv[len(lane.deployment.executable) + 1 :]


COMMANDS = dict(commands())


def ask(given: Sequence[Sequence[str]]) -> list[str | None]:
    """What vLLM says to each."""
    python = os.environ.get(PYTHON)
    assert python, f"{PYTHON} must name the Python of an environment that has vLLM (`make vllm` sets it)"
    done = subprocess.run(
        [python, "-P", str(ACCEPTS)], input=json.dumps(given), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == len(given)
    return answers


@pytest.fixture(scope="module")
def complaints() -> Mapping[str, str | None]:
    return dict(zip(COMMANDS, ask(list(COMMANDS.values())), strict=True))


def test_commands_were_found() -> None:
    assert len(COMMANDS) > 80


@pytest.mark.parametrize("name", COMMANDS)
def test_vllm_takes_the_command(name: str, complaints: Mapping[str, str | None]) -> None:
    assert complaints[name] is None, " ".join(COMMANDS[name])


def test_the_parser_refuses_what_is_wrong() -> None:
    wrong = (["m", "--no-such-flag=1"], ["m", "--tensor-parallel-size=two"], ["m", "--headless", "--api-key"])
    assert all(ask(wrong))
