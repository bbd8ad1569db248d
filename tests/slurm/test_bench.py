"""The benchmarks that need a cluster, once and without the peer."""

from bench import allocation, failure
from tests.slurm.cluster import Cluster


def test_an_allocation_is_measured(cluster: Cluster) -> None:
    cost = allocation.measure(cluster, allocation.submit_ours)
    assert 0 < cost.launched_s < cost.client_s < cost.wall_s
    assert cost.cpu_s > 0
    assert cost.sruns == 4  # its version, facts, and a step of servers per replica
    assert cost.jqs == 0
    assert cost.pythons <= 11  # attempt, client, endpoint; facts, vLLM's version, worker and server on each node


def test_a_death_reaches_the_other_node(cluster: Cluster) -> None:
    (found,) = failure.other_node_ours(cluster, 1)
    assert found > 0
