"""Lines as ``srun`` 22.05.8 wrote them, and those that say nothing of tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.slurm.srun_says import read_srun_line


@pytest.mark.parametrize(
    ("line", "nodes", "code"),
    [
        ("srun: error: c2: task 1: Exited with exit code 3", ["c2"], 3),
        ("srun: error: c1: task 0: Exited with exit code 75", ["c1"], 75),
        ("srun: error: c[1-2]: tasks 0-1: Killed", ["c1", "c2"], -9),
        ("srun: error: GPU-A1: task 0: Terminated", ["GPU-A1"], -15),
        ("srun: error: c3: task 2: Segmentation fault (core dumped)", ["c3"], -11),
        ("srun: error: rack[1,3]: tasks 0,4: Bus error", ["rack1", "rack3"], -7),
        ("srun: error: c1: task 0: Out Of Memory", ["c1"], -9),
    ],
)
def test_ends_of_tasks(line: str, nodes: list[str], code: int) -> None:
    told = read_srun_line(line + "\n")
    assert told is not None
    assert (list(told.nodes), told.code) == (nodes, code)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "srun: Job step aborted: Waiting up to 5 seconds for job step to finish.",
        "srun: launch/slurm: _step_signal: Terminating StepId=3.1",
        "srun: error: Unable to create step for job 12: Requested node configuration is not available",
        "slurmstepd-c1: error: *** STEP 3.1 ON c1 CANCELLED AT 2026-11-30T07:41:01 ***",
        "srun: error: c2: task 1: Exited with exit code 1000",
        "srun: error: c2: task 1: Gone fishing",
        "srun: error: c[2: task 1: Killed",
        "node c2: srun: error: c2: task 1: Killed",
    ],
)
def test_all_else_says_nothing_of_tasks(line: str) -> None:
    assert read_srun_line(line) is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    read_srun_line(text)
