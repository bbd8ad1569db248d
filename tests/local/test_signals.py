"""A signal to the controller ends everything in order, at every phase; the record says how it was."""

import json
import os
import shutil
import signal
from collections.abc import Callable

import pytest

from core.supervise.verdict import Completed, OutOfTime, Stopped
from tests.local.conftest import MakeRun
from tests.local.local_run import Controller, LocalRun, replayed, until

pytestmark = pytest.mark.slow

ENDS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129, signal.SIGUSR1: 75}


def _starting(run: LocalRun) -> Controller:
    controller = run.start({"startup_s": 60})
    controller.victim("engine of a rank")
    controller.says("the client is prepared")
    return controller


def _working(run: LocalRun) -> Controller:
    controller = run.start()
    until(lambda: run.works, "the program to work")
    return controller


@pytest.mark.parametrize("reach", [_starting, _working])
@pytest.mark.parametrize("number", ENDS)
def test_all_ends_in_order(make_run: MakeRun, reach: Callable[[LocalRun], Controller], number: signal.Signals) -> None:
    run = make_run()
    controller = reach(run)
    controller.send(number)
    assert controller.code() == ENDS[number], controller.log.read_text()
    assert not run.processes()
    run.check_files()
    record = run.record(1)
    assert (record["state"], record["exit_code"]) == ("INTERRUPTED", ENDS[number])
    stopped = Stopped(reason=number.name, exit_code=ENDS[number])
    assert run.verdict(1) == replayed(run.attempt(1)) == (OutOfTime() if number == signal.SIGUSR1 else stopped)
    _check_order(run)


def test_under_nohup_a_closed_terminal_ends_nothing(make_run: MakeRun) -> None:
    run = make_run()
    controller = run.start(before=("nohup",))
    until(lambda: run.works, "the program to work")
    controller.send(signal.SIGHUP)
    run.open_gate()
    assert controller.code() == 0, controller.log.read_text()


def test_a_log_that_nobody_reads_ends_nothing(make_run: MakeRun) -> None:
    """As with ``| head``: the reader goes away after the first line."""
    run = make_run()
    controller = run.start(before=("sh", "-c", '{ "$@"; echo "$?" >"$0"; } | head -1', str(run.folder / "code")))
    until(lambda: run.works, "the program to work")
    run.open_gate()
    controller.code()
    assert (run.folder / "code").read_text() == "0\n"
    assert run.record(1)["state"] == "COMPLETED"


def test_a_run_folder_that_is_removed_is_told_in_a_sentence(make_run: MakeRun) -> None:
    run = make_run()
    controller = _working(run)
    shutil.rmtree(run.paths.root)
    run.open_gate()
    assert controller.code() == 74, controller.log.read_text()
    assert "the folder of the run cannot be used any more" in controller.log.read_text()
    assert "Traceback" not in controller.log.read_text()
    run.await_nothing_left()


def test_ctrl_c_in_a_terminal_reaches_the_whole_group(make_run: MakeRun) -> None:
    run = make_run()
    controller = _working(run)
    controller.send_to_group(signal.SIGINT)
    assert controller.code() == 130, controller.log.read_text()
    assert not run.processes()
    _check_order(run)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_nodes_say_what_they_have(make_run: MakeRun, number: signal.Signals) -> None:
    run = make_run()
    controller = run.start(environ=run.hold("shell.node facts"))
    controller.victim("facts worker")
    controller.send(number)
    assert controller.code() == ENDS[number], controller.log.read_text()
    assert not run.processes()
    assert run.record(1)["state"] == "INTERRUPTED"
    assert not (run.attempt(1) / "events.jsonl").exists(), "nothing was started"


def test_a_second_signal_changes_nothing(make_run: MakeRun) -> None:
    run = make_run()
    controller = _working(run)
    endpoint = controller.victim("endpoint")
    os.kill(endpoint, signal.SIGSTOP)
    controller.send(signal.SIGUSR1)
    controller.says("ending: ")
    controller.send(signal.SIGTERM)
    _await_event(run, "stop-asked")
    os.kill(endpoint, signal.SIGCONT)
    assert controller.code() == 75, controller.log.read_text()
    assert run.verdict(1) == replayed(run.attempt(1)) == OutOfTime()
    assert not run.processes()


def test_a_signal_after_the_result_does_not_lose_it(make_run: MakeRun) -> None:
    run = make_run(invocation={"num_records": 1})
    controller = _working(run)
    endpoint = controller.victim("endpoint")
    os.kill(endpoint, signal.SIGSTOP)
    run.open_gate()
    controller.says("ending: the result is complete")
    controller.send(signal.SIGTERM)
    _await_event(run, "stop-asked")
    os.kill(endpoint, signal.SIGCONT)
    assert controller.code() == 0, controller.log.read_text()
    assert run.verdict(1) == replayed(run.attempt(1)) == Completed()
    assert run.winner()["attempt"] == 1
    assert not run.processes()


def _events(run: LocalRun) -> list[str]:
    return [json.loads(line)["kind"] for line in (run.attempt(1) / "events.jsonl").read_text().splitlines()]


def _await_event(run: LocalRun, kind: str) -> None:
    until(lambda: kind in _events(run), kind)


def _check_order(run: LocalRun) -> None:
    """The client first, which may still need answers; then endpoints, then servers; nothing had to be killed."""
    kinds = _events(run)
    ends = [kind for kind in kinds if kind in ("client-exited", "endpoint-exited", "server-exited")]
    assert ends == ["client-exited", "endpoint-exited", "server-exited"]
    tasks = run.attempt(1) / "tasks"
    assert [json.loads(path.read_text())["rest"] for path in tasks.glob("m-0.1.sim01.json")] == ["ended"]
