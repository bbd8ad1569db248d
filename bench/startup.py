"""What it costs to start our programs, and the peer's: ``python -m bench.startup``.

CPU time of the process and its children, the median of a few starts, and the most memory that one start took: never
less than this benchmark itself takes, because Linux counts what stood in a process before it became another program.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from bench.peer import add_peer_option, find_peer

OURS = {
    "bare python": ("-c", "pass"),
    "shell.run --help": ("-m", "shell.run", "--help"),
    "shell.node --help": ("-m", "shell.node", "--help"),
    "shell.endpoint --help": ("-m", "shell.endpoint", "--help"),
    "dd-slurm --help": ("-m", "shell.cli", "--help"),
}
PEERS = {
    "peer: entrypoint --help": ("-m", "data_designer.slurm.runtime.entrypoint", "--help"),
    "peer: node_worker --help": ("-m", "data_designer.slurm.runtime.node_worker", "--help"),
}
REFERENCE = "peer: entrypoint --help"


class Cost(NamedTuple):
    """Of one program."""

    cpu_s: float
    memory_mib: float


def start_cost(argv: Sequence[str], starts: int) -> Cost:
    """The median CPU time of these starts and the largest memory."""
    costs = [_start(argv) for _ in range(starts)]
    return Cost(statistics.median(cost.cpu_s for cost in costs), max(cost.memory_mib for cost in costs))


def _start(argv: Sequence[str]) -> Cost:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def table(costs: dict[str, Cost]) -> str:
    """One line per program; the last column says how many times less CPU than the peer's entrypoint."""
    reference = costs.get(REFERENCE)
    lines = ["| program | CPU, ms | memory, MiB | times less than the peer's entrypoint |", "|---|--:|--:|--:|"]
    for name, cost in costs.items():
        ratio = f"{reference.cpu_s / cost.cpu_s:,.0f}" if reference else ""
        lines.append(f"| {name} | {cost.cpu_s * 1000:,.0f} | {cost.memory_mib:,.0f} | {ratio} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--starts", type=int, default=7)
    add_peer_option(parser)
    options = parser.parse_args(arguments)
    peer = find_peer(options.peer)
    programs = {name: (sys.executable, *words) for name, words in OURS.items()}
    if peer:
        programs |= {name: (peer, *words) for name, words in PEERS.items()}
    print(table({name: start_cost(argv, options.starts) for name, argv in programs.items()}))


if __name__ == "__main__":
    main()
