"""The processes that a real server has beside itself: an engine core and a worker, which here do nothing but live.

They survive an API server that is killed, as real ones do, and do not keep its port. Standard library only.
"""

import os
import signal
import socket

SIGNALS = (signal.SIGTERM, signal.SIGINT)
NAMES = ("VLLM::EngineCore", "VLLM::Worker")


def start_children(listener: socket.socket | None) -> list[int]:
    """Start them; their process ids."""
    return [_start(name, listener) for name in NAMES]


def _start(name: str, listener: socket.socket | None) -> int:
    child = os.fork()
    if child == 0:
        if listener is not None:
            listener.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        with open("/proc/self/comm", "w", encoding="ascii") as own_name:
            own_name.write(name)
        while True:
            signal.pause()
    return child


def end_children(children: list[int]) -> None:
    """End them at once and wait for them."""
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
