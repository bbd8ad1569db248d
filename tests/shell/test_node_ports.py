"""A planned port is free, or the node worker launches nothing and answers 75."""

import os
import socket
from pathlib import Path

import pytest

from core.plan.task import PortTaken
from core.units import Port
from shell.worker.port_leases import PortInUse, claim
from tests.shell.node_world import free_port, plan_of, until, worker

pytestmark = pytest.mark.usefixtures("nothing_left")

ADDRESS = "127.0.1.1"


def leave_time_wait(port: int) -> None:
    """Close a connection from the side of the server, as a server that dies does."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((ADDRESS, port))
        server.listen()
        with socket.create_connection((ADDRESS, port)) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""


def test_a_free_port_is_ours_until_we_give_it_back() -> None:
    port = free_port(ADDRESS)
    with claim(ADDRESS, port), pytest.raises(PortInUse, match=f"another job: pid {os.getpid()} "):
        claim(ADDRESS, port)
    claim(ADDRESS, port).close()


def test_a_lease_does_not_keep_the_server_from_its_port() -> None:
    port = free_port(ADDRESS)
    with claim(ADDRESS, port), socket.socket() as server:
        server.bind((ADDRESS, port))


def test_the_same_port_of_another_node_is_free() -> None:
    port = free_port(ADDRESS)
    with claim(ADDRESS, port), claim("127.0.1.2", port):
        pass


@pytest.mark.parametrize("listener", [ADDRESS, "0.0.0.0", "::"])
def test_a_port_that_somebody_listens_on_is_taken(listener: str) -> None:
    port = free_port(ADDRESS)
    family = socket.AF_INET6 if ":" in listener else socket.AF_INET
    expected = f"port {port} on {ADDRESS} is taken by pid {os.getpid()} "
    with (
        socket.create_server((listener, port), family=family, dualstack_ipv6=":" in listener),
        pytest.raises(PortInUse, match=expected),
    ):
        claim(ADDRESS, port)


def test_1_1_a_port_that_its_listener_would_share_is_taken() -> None:
    """As vLLM up to 0.24 listens: a second server of the same user would bind it too, and get half of the requests."""
    port = free_port(ADDRESS)
    with (
        socket.create_server((ADDRESS, port), reuse_port=True),
        pytest.raises(PortInUse, match=f"pid {os.getpid()} "),
    ):
        claim(ADDRESS, port)


def test_a_rendezvous_needs_the_port_on_every_address() -> None:
    port = free_port(ADDRESS)
    with socket.create_server((ADDRESS, port)), pytest.raises(PortInUse):
        claim("0.0.0.0", port)


@pytest.mark.parametrize("reuse", [False, True])
def test_a_port_that_is_bound_and_not_listening_is_taken(reuse: bool) -> None:
    port = free_port(ADDRESS)
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        holder.bind((ADDRESS, port))
        with pytest.raises(PortInUse, match="not listening yet"):
            claim(ADDRESS, port)


def test_a_port_with_remains_in_time_wait_is_free() -> None:
    port = free_port(ADDRESS)
    leave_time_wait(port)
    with socket.socket() as plain, pytest.raises(OSError, match="in use"):
        plain.bind((ADDRESS, port))
    claim(ADDRESS, port).close()


def test_a_connection_that_is_still_served_takes_the_port() -> None:
    port = free_port(ADDRESS)
    with socket.create_server((ADDRESS, port)) as server:
        client = socket.create_connection((ADDRESS, port))
        accepted, _ = server.accept()
    with client, accepted, pytest.raises(PortInUse, match=f"pid {os.getpid()} "):
        claim(ADDRESS, port)


def test_remains_do_not_hide_a_listener() -> None:
    port = free_port(ADDRESS)
    leave_time_wait(port)
    with socket.create_server((ADDRESS, port)), pytest.raises(PortInUse, match=f"pid {os.getpid()} "):
        claim(ADDRESS, port)


def test_a_failed_claim_keeps_no_lease() -> None:
    port = free_port(ADDRESS)
    with socket.create_server((ADDRESS, port)), pytest.raises(PortInUse):
        claim(ADDRESS, port)
    claim(ADDRESS, port).close()


def test_ipv6() -> None:
    port = free_port()
    with claim("::1", port):
        pass
    with socket.create_server(("::1", port), family=socket.AF_INET6), pytest.raises(PortInUse, match="pid "):
        claim("::1", port)


def test_the_worker_launches_nothing_when_a_port_is_taken(tmp_path: Path) -> None:
    first = free_port(ADDRESS)
    port = first + 1
    plan = plan_of(["c1"], [0, 0], ports=[first, port])
    with socket.create_server((ADDRESS, port)), worker(plan, tmp_path, "c1") as running:
        assert running.code() == os.EX_TEMPFAIL
        cause = running.ended().cause
        assert isinstance(cause, PortTaken)
        assert (cause.lane, cause.address, cause.port) == ("writer-0.r1", ADDRESS, port)
        assert f"pid {os.getpid()} " in cause.holder
        assert f"port {port} on {ADDRESS} is taken by pid {os.getpid()} " in running.said()


def test_of_two_workers_with_one_port_one_runs(tmp_path: Path) -> None:
    """Neither has bound it yet when both look: the stand-in does not listen at all."""
    port = free_port(ADDRESS)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    plan = plan_of(["c1"], [0], ports=[Port(port)])
    with worker(plan, folders[0], "c1") as one, worker(plan, folders[1], "c1") as other:
        both = (one, other)
        until(lambda: any(each.process.poll() is not None for each in both))
        loser = next(each for each in both if each.process.poll() is not None)
        winner = next(each for each in both if each is not loser)
        assert loser.code() == os.EX_TEMPFAIL
        assert "another job: pid " in loser.said()
        assert len(winner.started().lanes) == 1
        winner.process.terminate()
        assert winner.code() == 0
    claim(ADDRESS, port).close()


def test_a_lease_counts_for_all_addresses_of_a_node() -> None:
    """One job wants it for its rendezvous on every address, the other for an API on one of them."""
    port = free_port()
    with claim("0.0.0.0", port), pytest.raises(PortInUse):
        claim("127.0.0.1", port)
