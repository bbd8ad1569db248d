"""Several stand-ins as one replica: they meet, and die alone."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.shell.node_world import until
from tests.shell.simulated import Simulated, free_port, is_alive, simulated

pytestmark = pytest.mark.slow
PATIENCE_S = 20


@contextmanager
def replica(folder: Path, *shared: str, nodes: int = 2, **more: Any) -> Iterator[list[Simulated]]:
    """A replica over `nodes` processes; the first one leads. The followers start first."""
    meeting = (f"--nnodes={nodes}", "--master-addr=127.0.0.1", f"--master-port={free_port()}", *shared)
    with ExitStack() as stack:
        followers = [
            stack.enter_context(
                simulated(folder, *meeting, f"--node-rank={rank}", "--headless", port=0, ready=False, **more)
            )
            for rank in range(1, nodes)
        ]
        leader = stack.enter_context(simulated(folder, *meeting, "--node-rank=0", ready=False, **more))
        yield [leader, *followers]


def hangs(client: httpx.Client) -> bool:
    try:
        client.post("/v1/completions", json={"prompt": "a"}, timeout=0.5)
    except httpx.ReadTimeout:
        return True
    return False


def test_the_leader_serves_when_all_are_there(tmp_path: Path) -> None:
    with replica(tmp_path, "-tp=3", nodes=3) as (leader, *followers), leader.client() as client:
        leader.wait_until_ready()
        assert leader.chat(client).status_code == 200
        for follower in followers:
            follower.process.terminate()
            assert follower.process.wait(PATIENCE_S) == 0
            assert "startup complete" not in follower.log


def test_the_leader_waits_and_gives_up(tmp_path: Path) -> None:
    words = ("-tp=2", "--nnodes=2", f"--master-port={free_port()}", "--distributed-timeout-seconds=1")
    with simulated(tmp_path, *words, ready=False) as leader:
        assert leader.process.wait(PATIENCE_S) == 1
        assert "waiting for clients" in leader.log


def test_a_taken_master_port(tmp_path: Path) -> None:
    with simulated(tmp_path) as other:
        words = ("-tp=2", "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={other.port}")
        with simulated(tmp_path, *words, ready=False) as leader:
            assert leader.process.wait(PATIENCE_S) == 1
            assert "address already in use" in leader.log


def test_a_dead_follower_is_not_noticed_but_requests_hang(tmp_path: Path) -> None:
    with replica(tmp_path, "-pp=2") as (leader, follower), leader.client() as client:
        leader.wait_until_ready()
        follower.process.kill()
        follower.process.wait(PATIENCE_S)
        until(lambda: hangs(client))
        assert client.get("/health").status_code == 200
        assert leader.process.poll() is None


def test_a_dead_leader_does_not_end_the_others(tmp_path: Path) -> None:
    with replica(tmp_path, "-tp=2") as (leader, follower):
        leader.wait_until_ready()
        leader.process.kill()
        leader.process.wait(PATIENCE_S)
        assert is_alive(follower.process.pid)
        follower.process.send_signal(signal.SIGTERM)
        assert follower.process.wait(PATIENCE_S) == 0


def test_a_follower_that_dies_before_the_start_is_waited_for_again(tmp_path: Path) -> None:
    meeting = ("-tp=3", "--nnodes=3", f"--master-port={free_port()}")
    with ExitStack() as stack:
        leader = stack.enter_context(simulated(tmp_path, *meeting, ready=False))

        def join(rank: int) -> Simulated:
            words = (f"--node-rank={rank}", "--headless")
            return stack.enter_context(simulated(tmp_path, *meeting, *words, port=0, ready=False))

        until(lambda: leader.sockets() == 4)  # its API, the meeting, and two of its event loop
        first = join(1)
        until(lambda: leader.sockets() == 5)
        first.process.kill()
        until(lambda: leader.sockets() == 4)
        join(2)
        until(lambda: leader.sockets() == 5)
        assert not leader.is_ready()
        join(1)
        leader.wait_until_ready()


def test_ranks_are_told_apart(tmp_path: Path) -> None:
    told = {"fail": {"at": "after_s", "count": 0, "exit": 7}, "only": {"rank": 1}}
    with replica(tmp_path, "-tp=2", told=told) as (leader, follower):
        assert follower.process.wait(PATIENCE_S) == 7
        assert leader.process.poll() is None


def test_every_rank_of_a_replica_hears_what_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    environment = {"DD_SLURM_SIMULATE_CONTROL": str(tmp_path / "orders")}
    with replica(tmp_path, "-tp=2", "--served-model-name=me", environment=environment) as (leader, follower):
        leader.wait_until_ready()
        (tmp_path / "orders" / "me").write_text('{"fail": {"at": "now", "exit": 5}}')
        assert [leader.process.wait(PATIENCE_S), follower.process.wait(PATIENCE_S)] == [5, 5]


def test_data_parallel_ranks_over_nodes(tmp_path: Path) -> None:
    meeting = ("-dp=2", "-dpl=1", "--data-parallel-address=127.0.0.1", f"--data-parallel-rpc-port={free_port()}")
    with (
        simulated(tmp_path, *meeting, "-dpr=1", "--headless", port=0, ready=False) as follower,
        simulated(tmp_path, *meeting) as leader,
        leader.client() as client,
    ):
        page = client.get("/metrics").text
        assert 'vllm:num_requests_running{engine="1",' in page
        assert leader.chat(client).status_code == 200
        follower.process.terminate()
        assert follower.process.wait(PATIENCE_S) == 0


def test_hybrid_load_balancing_serves_on_every_node(tmp_path: Path) -> None:
    meeting = ("-dp=2", "-dpl=1", "--data-parallel-address=127.0.0.1", f"--data-parallel-rpc-port={free_port()}")
    hybrid = (*meeting, "--data-parallel-hybrid-lb")
    with (
        simulated(tmp_path, *hybrid, "-dpr=1", ready=False) as second,
        simulated(tmp_path, *hybrid, "-dpr=0") as first,
        second.client() as client,
    ):
        second.wait_until_ready()
        assert 'vllm:num_requests_running{engine="1",' in client.get("/metrics").text
        assert 'engine="0"' not in client.get("/metrics").text
        assert first.is_ready()
