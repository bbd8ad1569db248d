"""What is shown of a step that failed."""

from pathlib import Path

import pytest

from core.layout import lane_log, task_ended, worker_log
from core.plan.task import first_end
from core.units import NodeName, StepName
from shell.launch.step_ends import log_lines, read_ends

STEP = StepName("m-0")
ENDED = (
    '{"step": "m-0", "launch": 1, "node": "n2", "cause": {"kind": "rank-ended", "lane": "m-0.r1"}, "rest": "ended", '
    '"lanes": [{"name": "m-0.r1", "pid": 7, "code": -9, "at_ms": 5}], "at_ms": 6}'
)


def test_workers_that_wrote_nothing_or_half_are_passed_over(tmp_path: Path) -> None:
    Path(task_ended(str(tmp_path), STEP, 1, "n1")).write_text(ENDED[:40])
    Path(task_ended(str(tmp_path), STEP, 1, "n2")).write_text(ENDED)
    first = first_end(read_ends(str(tmp_path), STEP, 1, [NodeName(name) for name in ("n1", "n2", "n3")]))
    assert first is not None
    assert (first.lane, first.node, first.code) == ("m-0.r1", "n2", -9)


@pytest.mark.parametrize(
    ("lane", "shown"),
    [
        (None, ["m-0.1.m-0.r0.log: line 9", "m-0.1.n1.worker.log: the worker"]),
        ("m-0.r1", ["m-0.1.m-0.r1.log is empty", "m-0.1.m-0.r0.log: line 9", "m-0.1.n1.worker.log: the worker"]),
    ],
)
def test_the_log_of_the_process_to_blame_comes_first(tmp_path: Path, lane: str | None, shown: list[str]) -> None:
    logs = str(tmp_path)
    Path(lane_log(logs, STEP, 1, "m-0.r0")).write_text("".join(f"line {number}\n" for number in range(10)))
    Path(lane_log(logs, STEP, 1, "m-0.r1")).write_text("")
    Path(lane_log(logs, STEP, 2, "m-0.r0")).write_text("of another launch\n")
    Path(worker_log(logs, STEP, 1, "n1")).write_text("the worker\n")
    lines = list(log_lines(logs, STEP, 1, lane))
    assert [line for line in lines if "line 7" not in line and "line 8" not in line] == [f"logs/{one}" for one in shown]
    assert len(lines) == len(shown) + 2


def test_the_process_to_blame_is_quoted_at_more_length(tmp_path: Path) -> None:
    Path(lane_log(str(tmp_path), STEP, 1, "m-0.r0")).write_text("".join(f"line {number}\n" for number in range(10)))
    assert next(log_lines(str(tmp_path), STEP, 1, "m-0.r0")) == "logs/m-0.1.m-0.r0.log: line 2"
