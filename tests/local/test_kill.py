"""``kill -9`` of any process at any phase leaves no process behind and a state from which the next start goes on."""

import os
import signal

import pytest

from tests.local.conftest import MakeRun
from tests.local.local_run import Controller, LocalRun, replayed, until

pytestmark = pytest.mark.slow

SERVER = ("node worker's guard", "node worker", "server rank", "engine of a rank")
"""The servers are started again, and the attempt goes on."""
CLIENT = ("client's guard", "client", "program of the client")
"""The attempt ends."""
CONTROLLER = ("controller", "controller's guard")
EXIT_CODES = (
    dict.fromkeys((*SERVER, "endpoint"), 0)
    | dict.fromkeys(CLIENT, 65)
    | {"controller": 128 + signal.SIGKILL, "controller's guard": -signal.SIGKILL}
)
STATES = {0: "COMPLETED", 65: "FAILED", 128 + signal.SIGKILL: "RUNNING", -signal.SIGKILL: "INTERRUPTED"}
"""What `attempt.json` says at last. A controller that is killed cannot say anything any more."""


@pytest.mark.parametrize("which", EXIT_CODES)
def test_killed_while_the_client_works(make_run: MakeRun, which: str) -> None:
    run = make_run()
    controller = run.start()
    until(lambda: run.works, "the program to work")
    os.kill(controller.victim(which), signal.SIGKILL)
    _check_end_and_next_start(run, controller, which)


@pytest.mark.parametrize("which", [which for which in EXIT_CODES if which != "program of the client"])
def test_killed_while_servers_start(make_run: MakeRun, which: str) -> None:
    run = make_run()
    controller = run.start({"startup_s": 2})
    controller.victim("engine of a rank")
    os.kill(controller.victim(which), signal.SIGKILL)
    _check_end_and_next_start(run, controller, which)


@pytest.mark.parametrize("which", CONTROLLER)
def test_killed_while_nodes_say_what_they_have(make_run: MakeRun, which: str) -> None:
    run = make_run()
    controller = run.start(environ=run.hold("shell.node facts"))
    controller.victim("facts worker")
    os.kill(controller.victim(which), signal.SIGKILL)
    run.open_gate()
    assert controller.code() == EXIT_CODES[which]
    run.await_nothing_left()
    run.check_files()
    assert run.start().code() == 0
    assert run.winner()["attempt"] == 2


def _check_end_and_next_start(run: LocalRun, controller: Controller, which: str) -> None:
    if which in SERVER:
        controller.says("it starts again")  # a program that goes on may be done before the servers are ended
    if EXIT_CODES[which] == 0:
        run.open_gate()  # else the program waits for ever, and somebody must end it
    code = controller.code()
    run.await_nothing_left()
    run.open_gate()
    assert code == EXIT_CODES[which], controller.log.read_text()
    assert run.record(1)["state"] == STATES[code]
    run.check_files()
    _check_journal(run, code)
    if code != 0:
        again = run.start()
        assert again.code() == 0, again.log.read_text()
        assert not run.processes()
    assert run.winner()["attempt"] == (1 if code == 0 else 2)
    assert sorted(run.rows()) == [0, 1, 2, 3]


def _check_journal(run: LocalRun, code: int) -> None:
    verdict = replayed(run.attempt(1))
    if code == EXIT_CODES["controller"]:
        assert verdict is None
    else:
        assert verdict == run.verdict(1)
