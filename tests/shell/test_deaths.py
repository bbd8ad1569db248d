"""The cause of a launch's death, from the files that it left."""

from pathlib import Path

import msgspec
import pytest

from core.layout import AttemptPaths, lane_log, worker_log
from core.plan.task import LaneEnded, Ordered, RankEnded, TaskEnded
from core.supervise.effects import Explain
from core.supervise.verdict import Completed, NotReadyInTime, ServersFailed, Verdict
from core.units import Alias, NodeName, StepName
from shell.attempt.deaths import Deaths
from shell.attempt.last_words import MOST_LOGS, death_of, death_words

STEP = StepName("m-0")
FULL = "(Worker_TP1 pid=7) ERROR 11-30 02:24:56 [multiproc_executor.py:953] OSError: [Errno 28] No space left on device"
LOST = "(Worker_TP0 pid=7) ERROR 11-30 02:24:57 [multiproc_executor.py:1063] RuntimeError: Connection reset by peer"


def write_lane(logs: Path, lane: str, text: str, launch: int = 1) -> None:
    Path(lane_log(str(logs), STEP, launch, lane)).write_text(text)


def ended(lane: str, code: int, *, by_order: bool = False) -> TaskEnded:
    return TaskEnded(
        step=STEP,
        launch=1,
        node=NodeName("n1"),
        cause=Ordered(signal="TERM") if by_order else RankEnded(lane=lane),
        rest="ended",
        lanes=(LaneEnded(name=lane, pid=7, code=code, at_ms=1), LaneEnded(name="m-0.r9", pid=8, code=-15, at_ms=2)),
        at_ms=3,
    )


def test_the_root_is_found_in_whichever_log_it_is(tmp_path: Path) -> None:
    write_lane(tmp_path, "m-0.r0", LOST)
    write_lane(tmp_path, "m-0.r1", f"{FULL}\nlast words")
    death = death_of(str(tmp_path), STEP, 1, [], "m-0.r0", "0.32.0")
    assert death is not None
    assert (death.step, death.launch) == (STEP, 1)
    assert (death.diagnosis.cause, death.diagnosis.log) == ("disk-full", "m-0.1.m-0.r1.log")
    cause, evidence, hint = death_words(death)
    assert cause == "probable cause: a disk is full (disk-full)"
    assert evidence == f"logs/m-0.1.m-0.r1.log: {FULL}"
    assert "HF_HOME" in hint


def test_other_launches_and_steps_are_not_looked_at(tmp_path: Path) -> None:
    write_lane(tmp_path, "m-0.r0", FULL, launch=2)
    Path(lane_log(str(tmp_path), "m-01", 1, "m-01.r0")).write_text(FULL)
    assert death_of(str(tmp_path), STEP, 1, [], None, None) is None


def test_the_words_of_slurm_stand_in_the_log_of_the_worker(tmp_path: Path) -> None:
    Path(worker_log(str(tmp_path), STEP, 1, "n1")).write_text(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.1."
    )
    death = death_of(str(tmp_path), STEP, 1, [], None, None)
    assert death is not None
    assert death.diagnosis.cause == "host-memory"


@pytest.mark.parametrize(("by_order", "cause"), [(False, "killed"), (True, None)])
def test_only_an_exit_of_its_own_speaks(tmp_path: Path, by_order: bool, cause: str | None) -> None:
    write_lane(tmp_path, "m-0.r0", "INFO: loading")
    write_lane(tmp_path, "m-0.r9", "INFO: loading")
    death = death_of(str(tmp_path), STEP, 1, [ended("m-0.r0", -9, by_order=by_order)], "m-0.r0", None)
    assert (death and death.diagnosis.cause) == cause


def test_of_many_logs_those_of_the_first_to_die_are_read(tmp_path: Path) -> None:
    for rank in range(3 * MOST_LOGS):
        write_lane(tmp_path, f"m-0.r{rank:02d}", "INFO: loading")
    last = f"m-0.r{3 * MOST_LOGS - 1}"
    write_lane(tmp_path, last, FULL)
    assert death_of(str(tmp_path), STEP, 1, [], None, None) is None
    for ends, lane in (([], last), ([ended(last, 1)], None)):
        death = death_of(str(tmp_path), STEP, 1, ends, lane, None)
        assert death is not None
        assert death.diagnosis.log.endswith(f"{last}.log")


def test_a_cause_far_above_the_end_is_found(tmp_path: Path) -> None:
    write_lane(tmp_path, "m-0.r0", "\n".join(["INFO: x" * 20] * 9000 + [FULL] + ['  File "a.py", line 1, in f'] * 3000))
    death = death_of(str(tmp_path), STEP, 1, [], "m-0.r0", None)
    assert death is not None
    assert death.diagnosis.cause == "disk-full"


def test_a_log_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    Path(lane_log(str(tmp_path), STEP, 1, "m-0.r0")).mkdir()
    assert death_of(str(tmp_path), STEP, 1, [], "m-0.r0", None) is None


def test_the_verdict_has_the_diagnosis_of_the_launch_that_was_lost_last(tmp_path: Path) -> None:
    paths = AttemptPaths(root=str(tmp_path))
    for folder in (paths.logs, paths.tasks):
        Path(folder).mkdir()
    deaths = Deaths(paths)
    write_lane(Path(paths.logs), "m-0.r0", FULL, launch=2)
    assert deaths.explain(Explain(step=STEP, launch=1, lane=None), [NodeName("n1")], None) == ()
    assert len(deaths.explain(Explain(step=STEP, launch=2, lane="m-0.r0"), [NodeName("n1")], "0.32.0")) == 3
    cause = NotReadyInTime(after_ms=5)
    for launch, found in ((1, None), (2, "disk-full")):
        verdict = ServersFailed(alias=Alias("m"), step=STEP, launch=launch, cause=cause)
        encoded = deaths.cause_json(verdict)
        assert msgspec.json.decode(encoded, type=Verdict) == verdict
        assert msgspec.json.decode(encoded).get("diagnosis", {}).get("cause") == found
    assert msgspec.json.decode(deaths.cause_json(Completed())) == {"kind": "completed"}
