"""Exit codes, recorded states, and the waits before restarts."""

import pytest

from core.supervise.plan import SupervisePlan
from core.supervise.relaunch import launched_again
from core.supervise.rules import attempt_state, exit_code
from core.supervise.state import Booting, Unit, Waiting
from core.supervise.verdict import (
    ClientFailed,
    ClientRefused,
    Completed,
    EndpointFailed,
    OutOfTime,
    RankExited,
    ServersFailed,
    Stopped,
    Stuck,
    Verdict,
)
from core.units import Alias, MonotonicMs, StepName
from tests.core.retell import read_plan

LOST = ServersFailed(alias=Alias("writer"), step=StepName("writer-0"), launch=1, cause=Stuck())


@pytest.mark.parametrize(
    ("verdict", "code", "state"),
    [
        (Completed(), 0, "COMPLETED"),
        (ClientRefused(reasons=()), 78, "FAILED"),
        (ClientFailed(code=1, reasons=()), 65, "FAILED"),
        (ClientFailed(code=0, reasons=("3 records are missing",)), 65, "FAILED"),
        (ClientFailed(code=75, reasons=()), 75, "FAILED"),
        (LOST, 69, "FAILED"),
        (EndpointFailed(alias=Alias("writer"), code=1), 69, "FAILED"),
        (Stopped(reason="SIGTERM", exit_code=143), 143, "INTERRUPTED"),
        (OutOfTime(), 75, "INTERRUPTED"),
    ],
)
def test_verdicts_have_exit_codes_and_states(verdict: Verdict, code: int, state: str) -> None:
    assert (exit_code(verdict), attempt_state(verdict)) == (code, state)


def restarting(max_restarts: int) -> SupervisePlan:
    return read_plan([f"model writer policy=restart backoff_ms=100 max_restarts={max_restarts}"])


def unit(restarts: int) -> Unit:
    return Unit(
        step=StepName("writer-0"),
        launch=restarts + 1,
        restarts=restarts,
        port_retries=0,
        life=Booting(since=MonotonicMs(0)),
    )


@pytest.mark.parametrize(("restarts", "wait"), [(0, 100), (1, 200), (2, 400), (5, 3200), (6, 3200), (5000, 3200)])
def test_the_wait_before_a_restart_doubles_up_to_a_bound(restarts: int, wait: int) -> None:
    cause = RankExited(code=1, node=None, serving=False)
    again = launched_again(restarting(9999), unit(restarts), cause, MonotonicMs(7))
    assert again is not None
    assert again.life == Waiting(at=MonotonicMs(7 + wait), cause=cause)
    assert (again.launch, again.restarts) == (restarts + 2, restarts + 1)


@pytest.mark.parametrize(
    ("code", "serving", "lane", "counts_as_restart"),
    [(75, False, None, 0), (75, True, None, 1), (1, False, None, 1), (75, False, "writer-0.r0", 1)],
)
def test_a_taken_port_is_said_by_a_worker_while_starting(
    code: int, serving: bool, lane: str | None, counts_as_restart: int
) -> None:
    cause = RankExited(code=code, node=None, serving=serving, lane=lane)
    again = launched_again(restarting(3), unit(0), cause, MonotonicMs(7))
    assert again is not None
    assert (again.restarts, again.port_retries) == (counts_as_restart, 1 - counts_as_restart)
