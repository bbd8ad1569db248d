"""One job step that is played by processes of this machine, with what `srun` does at its end."""

import os
import signal
import threading
from collections.abc import Callable, Sequence

from core.supervise.effects import Signal
from core.units import NodeName
from shell.launch.processes import Child

TaskCallback = Callable[[NodeName, int], None]
StepCallback = Callable[[int], None]


class LocalStep:
    """The tasks of a step, one per node. Used from the controller's thread and from the reaper's."""

    def __init__(
        self,
        nodes: Sequence[NodeName],
        kill_wait_s: float,
        task_exited: TaskCallback,
        step_exited: StepCallback,
        kill_on_bad_exit: bool,
    ) -> None:
        self._waiting_for = set(nodes)
        self._kill_wait_s = kill_wait_s
        self._task_exited = task_exited
        self._step_exited = step_exited
        self._kill_on_bad_exit = kill_on_bad_exit
        self._children: dict[NodeName, Child] = {}
        self._asked: Signal | None = None
        self._code = 0
        self._killer: threading.Timer | None = None
        self._lock = threading.RLock()

    def started(self, node: NodeName, child: Child) -> None:
        """A task runs. It gets the signal that its step has got meanwhile."""
        with self._lock:
            if node in self._waiting_for:
                self._children[node] = child
            asked = self._asked
        if asked is not None:
            _signal(child, asked)

    def ended(self, node: NodeName, code: int) -> None:
        """A task is gone. A bad code ends the others; the last one ends the step."""
        with self._lock:
            self._waiting_for.discard(node)
            self._children.pop(node, None)
            self._code = max(self._code, shell_code(code))
            last = not self._waiting_for
            if last and self._killer is not None:
                self._killer.cancel()
            elif not last and code != os.EX_OK and self._kill_on_bad_exit:
                self._end_others()
        self._task_exited(node, code)
        if last:
            self._step_exited(self._code)

    def signal(self, asked: Signal) -> None:
        """To all tasks, also to those that are not started yet."""
        with self._lock:
            self._asked = asked
            children = tuple(self._children.values())
        for child in children:
            _signal(child, asked)

    def _end_others(self) -> None:
        if self._killer is None:
            self._killer = threading.Timer(self._kill_wait_s, self.signal, ["KILL"])
            self._killer.daemon = True
            self._killer.start()
            self.signal("TERM")


def _signal(child: Child, asked: Signal) -> None:
    """A node worker's guard must not be killed before it has cleaned up: with nothing below it, it ends by itself.

    A worker that somebody has stopped goes on, or it could obey neither.
    """
    if asked == "KILL":
        child.kill_below()
    else:
        child.signal(signal.SIGTERM)
    child.signal(signal.SIGCONT)


def shell_code(code: int) -> int:
    """A code as shells and `srun` say it: 128+n for signal n."""
    return 128 - code if code < 0 else code
