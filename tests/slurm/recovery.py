"""Putting a cluster in order again after a test that has left it otherwise, for the sake of the next ones."""

import os
import signal
from contextlib import suppress

from tests.slurm.cluster import Cluster, ClusterError


def recover(cluster: Cluster) -> None:
    """Power, network, slurmd, no process of a job, idle: on every node."""
    for node in cluster.nodes:
        _start(cluster, node)
        for process in cluster.job_processes(node):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if not any("slurmd" in one.command for one in cluster.processes(node)):
            cluster.start_slurmd(node)
        cluster.reconnect(node)
        cluster.run(("scontrol", "update", f"nodename={node}", "state=resume"), user="root", check=False)
    cluster.wait_idle()


def _start(cluster: Cluster, node: str) -> None:
    with suppress(ClusterError):
        cluster.lab("start-node", node)  # refused where the node runs
        cluster.namespaces.hold(cluster.init(node))
