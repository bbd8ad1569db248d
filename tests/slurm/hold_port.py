"""Binds, without listening, the ports that a job's first server would get. It says so, and waits to be ended.

Nothing in /proc shows such a port, so facts cannot see it: as with a vLLM that is still loading.
"""

import os
import socket
import sys
import time

from core.plan.ports import first_port


def main() -> None:
    low, high = int(sys.argv[1]), int(sys.argv[2])
    start = first_port(os.environ["SLURM_JOB_ID"], 0, low, high)
    held = [socket.socket() for _ in range(2)]
    for offset, one in enumerate(held, 1):  # the first port is the endpoint's
        one.bind(("0.0.0.0", low + (start + offset - low) % (high - low + 1)))
    print(f"holding {len(held)} ports from {start}", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
