"""Questions that may never be answered: file systems that hang. Standard library only, for the serving container.

A process that waits for a stale mount cannot be killed. So every question has a thread of its own that nobody has to
wait for.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def answers(asked: Sequence[Asked], ask: Callable[[Asked], Answer], within_s: float) -> list[Answer | None]:
    """What `ask` says about each, in order; None where it does not come back in time."""
    found: list[Answer | None] = [None] * len(asked)

    def work(index: int, one: Asked) -> None:
        found[index] = ask(one)

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in enumerate(asked)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(found)
