"""A cluster from its start to its end, at which nothing of it may be left."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.slurm.cluster import Cluster, ClusterError
from tests.slurm.leftovers import HeldNamespaces, lasting_leftovers
from tests.slurm.logs import last_lines
from tests.slurm.options import LAB, PROJECT, LabOptions, lab_environment


@contextmanager
def running_cluster(options: LabOptions) -> Iterator[Cluster]:
    """A cluster in a folder of its own. At the end nothing of it is left, or a `ClusterError` says what is.

    It is stopped by a keeper that reads from us, so that it ends even if this process is killed.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm-test-")).resolve()
    folder.chmod(0o755)
    environ = lab_environment(folder, options)
    keeper = subprocess.Popen(
        ["bash", "-c", 'read -r _; bash "$0" stop; rm -rf "$1"', str(LAB), str(folder)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    with HeldNamespaces() as namespaces:
        try:
            yield _started(Cluster(folder, options, namespaces))
        finally:
            keeper.communicate(timeout=60)
            found = lasting_leftovers(folder, namespaces.names)
    if found:
        raise ClusterError("the cluster has left behind:\n" + "\n".join(found))


def _started(cluster: Cluster) -> Cluster:
    (cluster.folder / "shared").mkdir(mode=0o777)
    cluster.shared.chmod(0o1777)
    try:
        cluster.lab("start", timeout_s=180)
    except (ClusterError, subprocess.TimeoutExpired) as failed:
        raise ClusterError(f"{failed}\n{last_lines(cluster.folder, {})}") from None
    for node in ("login", *cluster.nodes):
        cluster.namespaces.hold(cluster.init(node))
    can_run = cluster.run((sys.executable, "-c", "import core.problem"), user="alice", cwd=PROJECT, check=False)
    cluster.user = "root" if can_run.returncode else "alice"
    return cluster
