"""What goes wrong in a run: servers, ports, nodes, the client. Either the run goes on, or its end says why."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from core.supervise.verdict import ForeignAnswered, NotReadyInTime, RankExited, ServersFailed
from tests.local.conftest import MakeRun
from tests.local.local_run import LocalRun, replayed, until

pytestmark = pytest.mark.slow

FAIL = {"policy": "fail"}
TWO_NODES = {"resources": {"nodes": 2}, "topology": {"pipeline_parallel": 2, "nodes_per_replica": 2}}


def _lane_pid(run: LocalRun, node: str) -> int:
    started = run.attempt(1) / "tasks" / f"m-0.1.{node}.started.json"
    until(started.exists, str(started))
    return int(json.loads(started.read_text())["lanes"][0]["pid"])


def _servers_failed(run: LocalRun) -> ServersFailed:
    verdict = run.verdict(1)
    assert isinstance(verdict, ServersFailed)
    assert replayed(run.attempt(1)) == verdict
    assert run.record(1)["state"] == "FAILED"
    assert not run.processes()
    return verdict


@pytest.mark.parametrize("node", ["sim01", "sim02"])
def test_a_replica_over_two_nodes_starts_again_when_a_rank_dies(make_run: MakeRun, node: str) -> None:
    run = make_run(TWO_NODES)
    controller = run.start()
    until(lambda: run.works, "the program to work")
    os.kill(_lane_pid(run, node), signal.SIGKILL)
    controller.says("it starts again")
    run.open_gate()
    assert controller.code() == 0, controller.log.read_text()
    assert sorted(run.rows()) == [0, 1, 2, 3]
    rank = ("sim01", "sim02").index(node)
    words = f"the process m-0.r{rank} on node {node} was killed by signal 9 (SIGKILL) while serving"
    assert words in run.story(1)
    told = run.story(1)[run.story(1).index("m-0 is gone") :].splitlines()
    assert f"logs/m-0.1.m-0.r{rank}.log" in told[1], "the log of the process that ended first is shown first"
    assert "m-0 (launch 2) is ready" in run.story(1)
    assert not run.processes()


def test_the_other_replica_goes_on(make_run: MakeRun) -> None:
    run = make_run(gpus_per_node=2)
    controller = run.start()
    until(lambda: run.works, "the program to work")
    os.kill(_lane_pid(run, "sim01"), signal.SIGKILL)
    controller.says("m-0 failed")
    run.open_gate()
    assert controller.code() == 0, controller.log.read_text()
    assert sorted(run.rows()) == [0, 1, 2, 3]


def test_without_a_restart_the_attempt_ends_and_names_the_step(make_run: MakeRun) -> None:
    run = make_run({"on_failure": FAIL})
    controller = run.start()
    until(lambda: run.works, "the program to work")
    os.kill(_lane_pid(run, "sim01"), signal.SIGKILL)
    assert controller.code() == 69, controller.log.read_text()
    verdict = _servers_failed(run)
    assert (verdict.step, verdict.launch) == ("m-0", 1)
    assert isinstance(verdict.cause, RankExited)
    assert "last lost: m-0" in controller.log.read_text()


def test_a_server_that_never_is_ready(make_run: MakeRun) -> None:
    server = {"startup_timeout": "2s", "distributed_init_timeout": "2s"}
    run = make_run({"on_failure": FAIL, "server": server})
    controller = run.start({"hang_startup": True})
    assert controller.code() == 69, controller.log.read_text()
    assert isinstance(_servers_failed(run).cause, NotReadyInTime)
    assert "not ready within 2.0 s" in controller.log.read_text()


def test_a_server_that_dies_at_its_start_too_often(make_run: MakeRun) -> None:
    run = make_run({"on_failure": {"policy": "restart", "max_restarts": 1, "backoff": "1s"}})
    controller = run.start({"fail": {"at": "startup", "exit": 9}})
    assert controller.code() == 69, controller.log.read_text()
    assert "the process m-0.r0 on node sim01 ended with exit code 9 while starting" in run.story(1)
    assert _servers_failed(run).launch == 2
    assert "Engine core initialization failed" in controller.log.read_text(), "the end of the server's log is shown"


def test_somebody_elses_server(make_run: MakeRun) -> None:
    foreign = (sys.executable, str(Path(__file__).with_name("foreign_server.py")))
    run = make_run({"on_failure": FAIL}, executable=foreign)
    controller = run.start()
    assert controller.code() == 69, controller.log.read_text()
    cause = _servers_failed(run).cause
    assert isinstance(cause, ForeignAnswered)
    assert cause.found == ("another-model",)


def test_1_12_a_proxy_in_the_environment_is_used_by_nobody(make_run: MakeRun) -> None:
    """It would be asked by probes, endpoint and program, and nothing listens there."""
    run = make_run()
    run.open_gate()
    names = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    empty = {"no_proxy": "", "NO_PROXY": ""}
    controller = run.start(environ=dict.fromkeys(names, "http://127.0.0.1:9") | empty)
    assert controller.code() == 0, controller.log.read_text()
    assert sorted(run.rows()) == [0, 1, 2, 3]


NOISE = "WARN (EngineCore) Unable to free EP object; ERROR failed to load plug-in; Traceback (most recent call last):"


def test_1_14_words_in_a_log_end_no_server(make_run: MakeRun) -> None:
    noisy = ("sh", "-c", f'echo "{NOISE}"; exec "{sys.executable}" -m shell.simulate "$@"', "noisy")
    run = make_run({"on_failure": FAIL}, executable=noisy)
    run.open_gate()
    controller = run.start()
    assert controller.code() == 0, controller.log.read_text()
    (log,) = (run.attempt(1) / "logs").glob("m-0.1.m-0.r0.log")
    assert NOISE in log.read_text()
    assert "failed" not in run.story(1)


def test_a_planned_port_that_is_taken(make_run: MakeRun) -> None:
    run = make_run()
    run.open_gate()
    controller = run.start(environ=run.hold("shell.node serve"))
    controller.victim("node worker's guard")
    node, port = _planned(run, 1)
    with socket.create_server((node, port)):
        run.release()
        assert controller.code() == 0, controller.log.read_text()
    assert "m-0 found a planned port taken; it starts again with other ports" in run.story(1)
    assert _planned(run, 2) != (node, port)
    assert sorted(run.rows()) == [0, 1, 2, 3]


def _planned(run: LocalRun, revision: int) -> tuple[str, int]:
    bound = json.loads((run.attempt(1) / f"bound-{revision:04d}.json").read_text())
    role = bound["deployments"][0]["replicas"][0]["lanes"][0]["role"]
    return bound["nodes"][0]["address"], role["http_port"]


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("no-result", "none of the files has rows"),
        ("short", "3 records instead of 4"),
        ("fail", "ended with exit code 3"),
    ],
)
def test_a_client_without_a_whole_result_may_try_again(make_run: MakeRun, does: str, words: str) -> None:
    run = make_run()
    run.open_gate()
    controller = run.start(environ={"LOCAL_TEST_PROGRAM": does})
    assert controller.code() == 75, controller.log.read_text()
    assert run.record(1)["state"] == "FAILED"
    (reason,) = run.record(1)["cause"]["reasons"]
    assert reason.count(words) == 1
    assert not (run.attempt(1) / "result.json").exists()
    assert not Path(run.paths.winner(0)).exists()
    assert not run.processes()


def test_a_client_command_that_is_not_there(make_run: MakeRun) -> None:
    run = make_run(client={"command": ["no-such-program"]})
    controller = run.start({"startup_s": 60})
    assert controller.code() == 78, controller.log.read_text()
    assert "no-such-program" in run.story(1)
    assert not run.processes()


def test_nodes_that_do_not_report_are_all_named_and_nothing_is_started(make_run: MakeRun) -> None:
    run = make_run(TWO_NODES)
    controller = run.start(environ=run.hold("shell.node facts"))
    for node in ("sim01", "sim02"):
        os.kill(controller.victim(f"facts worker of {node}"), signal.SIGKILL)
    run.release()
    assert controller.code() == 78, controller.log.read_text()
    record = run.record(1)
    assert record["state"] == "FAILED"
    assert [f"node {node}" in run.story(1) for node in ("sim01", "sim02")] == [True, True]
    assert len(record["cause"]["problems"]) == 2
    assert not (run.attempt(1) / "events.jsonl").exists()
    assert not run.processes()
