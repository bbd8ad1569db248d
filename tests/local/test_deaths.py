"""Servers that die are explained by their logs; servers that live are sampled, and ended when they stand still."""

import json
from pathlib import Path

import msgspec
import pytest

from core.sample import Sample
from core.supervise.verdict import ServersFailed, Stuck
from tests.local.conftest import MakeRun
from tests.local.local_run import REPOSITORY, LocalRun, replayed, until
from tests.vllm_logs import FOLDER

pytestmark = pytest.mark.slow

FAIL = {"policy": "fail"}
IMPATIENT = """
import sys
if "shell.run" in sys.orig_argv:
    from shell.attempt import sampling
    sampling.EVERY_S, sampling.STALL_AFTER_MS = 0.1, 1000
"""


def _last_words(name: str) -> list[str]:
    return (FOLDER / f"{name}.log").read_text().splitlines()


def test_a_server_that_does_not_come_up_is_explained(make_run: MakeRun) -> None:
    run = make_run({"on_failure": FAIL})
    controller = run.start({"fail": {"at": "startup", "says": _last_words("weights_missing")}})
    assert controller.code() == 69, controller.log.read_text()
    story = run.story(1)
    assert "probable cause: the model's folder has no weights (weights-missing)" in story
    assert "logs/m-0.1.m-0.r0.log: (Worker pid=4958) ERROR" in story
    assert "what to do: /models/m-noweights has no *.safetensors" in story
    assert run.record(1)["cause"]["diagnosis"]["cause"] == "weights-missing"
    assert isinstance(run.verdict(1), ServersFailed)
    assert replayed(run.attempt(1)) == run.verdict(1)


def test_every_launch_is_explained_and_the_last_counts(make_run: MakeRun) -> None:
    run = make_run({"on_failure": {"policy": "restart", "max_restarts": 1, "backoff": "1s"}})
    controller = run.start({"fail": {"at": "startup", "exit": "SIGKILL", "says": ["loading"]}})
    assert controller.code() == 69, controller.log.read_text()
    assert run.story(1).count("probable cause: the process was killed from outside (killed)") == 2
    diagnosis = run.record(1)["cause"]["diagnosis"]
    assert (diagnosis["evidence"], diagnosis["log"]) == ("it ended by signal 9", "m-0.2.m-0.r0.log")


def test_an_unknown_death_has_no_diagnosis(make_run: MakeRun) -> None:
    run = make_run({"on_failure": FAIL})
    controller = run.start({"fail": {"at": "startup", "says": ["RuntimeError: something new"]}})
    assert controller.code() == 69, controller.log.read_text()
    assert "probable cause" not in run.story(1)
    assert "diagnosis" not in run.record(1)["cause"]


def _samples(run: LocalRun) -> list[Sample]:
    path = run.attempt(1) / "samples.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Sample) for line in lines]


def test_servers_are_sampled_while_they_are_used(make_run: MakeRun) -> None:
    run = make_run(gpus_per_node=2)
    controller = run.start()
    until(lambda: len({sample.id for sample in _samples(run)}) == 2, "samples of both replicas")
    run.open_gate()
    assert controller.code() == 0, controller.log.read_text()
    assert {sample.id for sample in _samples(run)} == {"m-0.1.0", "m-1.1.0"}
    assert {(sample.state, sample.waiting) for sample in _samples(run)} == {("fine", 0)}
    assert not run.processes()


def _impatient(folder: Path) -> dict[str, str]:
    patched = folder / "impatient"
    patched.mkdir()
    (patched / "sitecustomize.py").write_text(IMPATIENT)
    return {"PYTHONPATH": f"{REPOSITORY}:{patched}"}


def test_a_server_that_stands_still_is_ended(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run({"on_failure": FAIL})
    run.open_gate()
    controller = run.start({"stall_after_requests": 2}, environ=_impatient(tmp_path))
    assert controller.code() == 69, controller.log.read_text()
    verdict = run.verdict(1)
    assert isinstance(verdict, ServersFailed)
    assert verdict.cause == Stuck()
    assert "requests run but no token comes" in run.story(1)
    assert [sample.state for sample in _samples(run)][-1] == "stalled"
    events = [json.loads(line)["kind"] for line in (run.attempt(1) / "events.jsonl").read_text().splitlines()]
    assert events.count("server-stalled") == 1
    assert not run.processes()
