"""A worker ends when its controller gives no sign of life, and only then."""

import os
from pathlib import Path

import pytest

from core.plan.task import Ordered
from shell.worker.lease import Lease, LeaseWatch
from shell.worker.serve import LEASE_EXPIRED
from tests.shell.node_world import alive, plan_of, until, worker

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_expires_when_nobody_renews_it(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path / "lease"), every_s=1_000)
    patient = LeaseWatch(str(tmp_path / "lease"), expires_after_s=1_000)
    watch = LeaseWatch(str(tmp_path / "lease"), expires_after_s=0.5)
    until(watch.expired)
    assert not patient.expired()
    os.utime(tmp_path / "lease", (0, 0))
    assert not watch.expired(), "any change is a sign of life, also one of a clock that goes back"
    lease.withdraw()


def test_is_renewed_until_it_is_withdrawn(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path / "lease"), every_s=0.01)
    os.utime(tmp_path / "lease", (0, 0))
    until(lambda: os.stat(tmp_path / "lease").st_mtime > 0)
    lease.withdraw()


def test_a_lease_that_was_withdrawn_has_expired_at_once(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path / "lease"))
    watch = LeaseWatch(str(tmp_path / "lease"))
    assert not watch.expired()
    lease.withdraw()
    assert watch.expired()


def test_a_file_system_that_does_not_answer_counts_as_no_sign(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    patient = LeaseWatch(str(tmp_path / "folder" / "lease"), expires_after_s=1_000)
    watch = LeaseWatch(str(tmp_path / "folder" / "lease"), expires_after_s=0.05)
    until(watch.expired)
    assert not patient.expired()


def test_a_worker_ends_its_servers_with_the_lease(tmp_path: Path) -> None:
    (tmp_path / "lease").touch()
    with worker(plan_of(["c1"], [0, 0]), tmp_path, "c1", lease=tmp_path / "lease") as running:
        pids = [lane.pid for lane in running.started().lanes]
        assert running.code() == 0
        assert not any(map(alive, pids))
        assert running.ended().cause == Ordered(signal=LEASE_EXPIRED)
        assert LEASE_EXPIRED in running.said()
