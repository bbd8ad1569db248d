"""Every `vllm serve` command of the golden plans, put to the parser of a real vLLM.

DD_SLURM_VLLM_PYTHON names the Python of its environment.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from core.plan.bound import BoundPlan
from core.plan.steps import lanes_on, steps_of
from core.vllm.serve_args import serve_argv
from tests.vllm.real import PATIENCE_S, vllm_python

pytestmark = pytest.mark.vllm

ACCEPTS = Path(__file__).with_name("accepts.py")
GOLDEN = Path(__file__).parents[1] / "golden"


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
WRONG = {
    "an unknown flag": ("m", "--no-such-flag=1"),
    "no number": ("m", "--tensor-parallel-size=two"),
    "an executor that is none": ("m", "--distributed-executor-backend"),
}


def ask(given: Sequence[Sequence[str]]) -> list[str | None]:
    """What vLLM says to each."""
    done = subprocess.run(
        [vllm_python(), "-P", str(ACCEPTS)], input=json.dumps(given), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == len(given)
    return answers


@pytest.fixture(scope="module")
def complaints() -> Mapping[str, str | None]:
    """For all at once, and for some that are wrong."""
    asked = COMMANDS | WRONG
    return dict(zip(asked, ask(list(asked.values())), strict=True))


def test_commands_were_found() -> None:
    assert len(COMMANDS) > 80


@pytest.mark.parametrize("name", COMMANDS)
def test_vllm_takes_the_command(name: str, complaints: Mapping[str, str | None]) -> None:
    assert complaints[name] is None, " ".join(COMMANDS[name])


@pytest.mark.parametrize("name", WRONG)
def test_vllm_refuses_what_is_wrong(name: str, complaints: Mapping[str, str | None]) -> None:
    assert complaints[name] is not None, " ".join(WRONG[name])
