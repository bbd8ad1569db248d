"""What a job costs on the nodes of a test cluster: the CPU of everything that runs there, and how many programs start.

CPU is read from a cgroup that all processes of the nodes are moved into, daemons of Slurm too: what they and their
descendants use from then on is counted exactly, also for processes that nobody waits for. Programs are counted by the
kernel's process accounting, which each node's process namespace has for itself.
"""

import os
import re
import select
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.slurm.cluster import Cluster

_RECORD = struct.Struct("<BBHIIIIIIf8H16s")
_VERSION, _FORKED_ONLY = 3, 1
_TURN_ON = "import ctypes, sys; sys.exit(ctypes.CDLL(None).acct(sys.argv[1].encode()) if sys.argv[1] else 0)"
_TURN_OFF = "import ctypes; ctypes.CDLL(None).acct(None)"
_BATCH = re.compile(r"slurmstepd: \[\d+\.batch\]")
PATIENCE_S = 300.0


class Meter(NamedTuple):
    """Of some nodes."""

    group: Path
    accounts: tuple[Path, ...]

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        found = re.search(r"^usage_usec (\d+)$", (self.group / "cpu.stat").read_text(), re.MULTILINE)
        if found is None:
            raise OSError(f"{self.group} does not count CPU time")
        return int(found[1]) / 1e6

    def programs(self) -> Counter[str]:
        """How often each program has been started so far, by its first 15 letters, of those that have ended."""
        return Counter(name for path in self.accounts for name in started_programs(path.read_bytes()))


@contextmanager
def metered(cluster: Cluster, nodes: Sequence[str]) -> Iterator[Meter]:
    """A meter for all that starts on these nodes. Needs root and a cgroup of version 2."""
    group = unified_cgroups() / f"bench-{os.getpid()}"
    group.mkdir()
    accounts = tuple(cluster.shared / f"account-{node}" for node in nodes)
    try:
        for node, account in zip(nodes, accounts, strict=True):
            for process in cluster.processes(node):
                _move(process.pid, group)
            account.touch()
            cluster.run((sys.executable, "-c", _TURN_ON, str(account)), node=node, user="root")
        yield Meter(group, accounts)
    finally:
        for node in nodes:
            cluster.run((sys.executable, "-c", _TURN_OFF), node=node, user="root")
        for pid in (group / "cgroup.procs").read_text().split():
            _move(int(pid), group.parent)
        group.rmdir()


def unified_cgroups() -> Path:
    """Where this machine shows its cgroups of version 2."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split(" ")[4])
    raise OSError("no cgroup of version 2 is mounted here")


def _move(pid: int, group: Path) -> None:
    try:
        (group / "cgroup.procs").write_text(str(pid))
    except ProcessLookupError:
        return


def started_programs(accounts: bytes) -> Iterator[str]:
    """Names in the kernel's records, without processes that were only forked."""
    for record in _RECORD.iter_unpack(accounts[: len(accounts) // _RECORD.size * _RECORD.size]):
        flags, version, name = record[0], record[1], record[-1]
        if version & 0xF != _VERSION:
            raise OSError(f"process accounting of version {version & 0xF}, not {_VERSION}")
        if not flags & _FORKED_ONLY:
            yield name.split(b"\0")[0].decode(errors="replace")


class Batch:
    """A batch script that has started. Times are nanoseconds since the epoch.

    The kernel counts the start of processes in hundredths of a second.
    """

    def __init__(self, pid: int) -> None:
        self._process = os.pidfd_open(pid)
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        booted_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.begun_ns = booted_ns + ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    def ended_ns(self) -> int:
        """Waits for its end, without polling."""
        readable, _, _ = select.select([self._process], [], [], PATIENCE_S)
        os.close(self._process)
        if not readable:
            raise TimeoutError(f"the batch script runs for more than {PATIENCE_S:.0f} s")
        return time.time_ns()


def watch_batch(cluster: Cluster, node: str) -> Batch:
    """The script of the only job, as soon as it runs."""
    return Batch(_batch_process(cluster, node))


def _batch_process(cluster: Cluster, node: str) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        keepers = [one.pid for one in cluster.processes(node) if _BATCH.match(one.command)]
        for keeper in keepers:
            children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
            if children:
                return int(children[0])
        time.sleep(0.02)
    raise TimeoutError(f"no batch script has started on {node}")
