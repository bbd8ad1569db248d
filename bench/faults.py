"""``python -m bench.faults``: what a user reads after each fault on a real cluster, and when the nodes are free again.

Starts the Slurm of the tests (as root, see tests/slurm), runs one replica over two nodes for each fault, and prints a
table in Markdown. Times count from the fault until every node is idle and nothing of the job is left on any; where a
run goes on, they hold the rest of it. KillWait is 3 s and SlurmdTimeout 10 s there; Slurm's defaults are 30 and 300 s.
"""

import signal
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.slurm.cluster import Cluster
from tests.slurm.options import LabNode, LabOptions
from tests.slurm.running import running_cluster
from tests.slurm.slurm_run import RESTART, TWO_NODES, SlurmJob, SlurmRun

NODES = LabOptions(nodes=tuple(LabNode(name=f"c{number}") for number in range(1, 5)))
WORKER = "shell.node serve"
SEEN_WITHIN_S = 3.0
"""After that the run may go on, whether the fault was noticed or not."""


class Fault(NamedTuple):
    """What is done to a working run, and how the cluster is mended afterwards."""

    words: str
    inject: Callable[[Cluster, SlurmRun, SlurmJob], None]
    mend: Callable[[Cluster], None] = lambda cluster: None


def _step(cluster: Cluster, job: SlurmJob) -> str:
    steps = cluster.run(("squeue", "-s", "-h", "-j", job.id, "-o", "%i %j")).stdout.splitlines()
    return next(line.split()[0] for line in steps if line.endswith(" m-0"))


FAULTS = (
    Fault("a rank exits with 0", lambda c, r, j: j.command({"only": {"rank": 1}, "fail": {"at": "now", "exit": 0}})),
    Fault("a rank exits with 1", lambda c, r, j: j.command({"only": {"rank": 1}, "fail": {"at": "now", "exit": 1}})),
    Fault("SIGKILL of a rank", lambda c, r, j: j.kill_lane("c2")),
    Fault("SIGSEGV of a rank", lambda c, r, j: j.kill_lane("c2", signal.SIGSEGV)),
    Fault("SIGKILL of a node worker", lambda c, r, j: j.kill("c2", WORKER, 1)),
    Fault("SIGKILL of a node worker's guard", lambda c, r, j: j.kill("c2", WORKER, 0)),
    Fault("SIGKILL of `srun`", lambda c, r, j: j.kill("c1", "srun --job-name=m-0")),
    Fault("`scancel` of the step", lambda c, r, j: c.scancel(_step(c, j))),
    Fault("SIGKILL of an endpoint", lambda c, r, j: j.kill("c1", "shell.endpoint")),
    Fault("SIGKILL of the client", lambda c, r, j: j.kill("c1", "program.py")),
    Fault("SIGKILL of the controller", lambda c, r, j: j.kill("c1", "shell.run", 1)),
    Fault("SIGKILL of the controller's guard", lambda c, r, j: j.kill("c1", "shell.run", 0)),
    Fault("`scancel` of the job", lambda c, r, j: c.scancel(j.id)),
    Fault("the margin before the time limit", lambda c, r, j: c.scancel("-b", "-s", "USR1", j.id)),
    Fault("`slurmd` of a follower's node dies", lambda c, r, j: c.kill_slurmd("c2"), lambda c: c.start_slurmd("c2")),
    Fault("a follower's node loses its power", lambda c, r, j: c.kill_node("c2"), lambda c: c.start_node("c2")),
    Fault("the batch host loses its power", lambda c, r, j: c.kill_node("c1"), lambda c: c.start_node("c1")),
)


def main() -> int:
    """Print the table."""
    chosen = [fault for fault in FAULTS if not sys.argv[1:] or any(word in fault.words for word in sys.argv[1:])]
    print("| fault | what the user reads first | job | attempt | nodes free after |\n|---|---|---|---|---|", flush=True)
    with running_cluster(NODES) as cluster:
        for fault in chosen:
            print(_row(cluster, fault), flush=True)
    return 0


def _row(cluster: Cluster, fault: Fault) -> str:
    run = SlurmRun(cluster, TWO_NODES | RESTART)
    job = run.submit()
    run.wait_working(job)
    told = len(job.log().splitlines())
    begun = time.monotonic()
    fault.inject(cluster, run, job)
    while len(job.log().splitlines()) == told and time.monotonic() - begun < SEEN_WITHIN_S:
        time.sleep(0.05)
    run.open_gate()
    state = cluster.wait(job.id, timeout_s=180)
    if "slurmd" not in fault.words:
        dead = {"c2"} if "follower" in fault.words else {"c1"} if "batch host" in fault.words else set()
        cluster.wait_idle(*(node for node in cluster.nodes if node not in dead), timeout_s=180)
    seconds = time.monotonic() - begun
    fault.mend(cluster)
    cluster.wait_idle(timeout_s=180)
    said = [line.partition(" s  ")[2] for line in job.log().splitlines()[told:] if " s  " in line]
    record = job.record()
    ended = record["state"] if record["exit_code"] is None else f"{record['state']}, exit code {record['exit_code']}"
    return f"| {fault.words} | {said[0] if said else 'nothing more'} | {state} | {ended} | {seconds:.0f} s |"


if __name__ == "__main__":
    sys.exit(main())
