"""Job steps of a Slurm allocation: one ``srun`` per step, which starts a node worker on each of its nodes.

Orders go through ``srun``, whose connection to the nodes needs no ``slurmctld``: it forwards USR2, which a node worker
takes for the order to stop, and TERM makes it kill its tasks at once. Observed on 22.05 and documented for all
releases: TERM to ``srun`` gives its tasks no time, so it is never the way to stop in order.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from core.layout import facts_step_log
from core.plan.bound import BoundPlan
from core.plan.job_steps import StepSite, facts_step, server_step
from core.plan.process_env import join_path
from core.plan.steps import Step
from core.slurm.containers import outer_environment
from core.slurm.environ import step_environment
from core.slurm.srun import StepRequest, serve_srun
from core.slurm.srun_says import read_srun_line
from core.slurm.versions import SlurmVersion
from core.supervise.effects import Signal
from core.units import NodeName, StepName
from shell.launch import ExitListener
from shell.processes import Child, Reaper
from shell.store import write_atomic

STOP_IN_ORDER = signal.SIGUSR2
PATIENCE_S = 10.0
"""How long ``srun`` may take to kill its tasks before it is killed itself; a dead node keeps it waiting."""
_EXIT_NOT_STARTED = 127

NodesCallback = Callable[[NodeName, int], None]


class SrunLauncher:
    """Carries steps of one allocation."""

    def __init__(
        self,
        site: StepSite,
        version: SlurmVersion | None,
        reaper: Reaper,
        listener: ExitListener,
        environ: Mapping[str, str],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._site, self._version = site, version
        self._reaper, self._listener, self._patience_s = reaper, listener, patience_s
        inherited = step_environment(environ)
        path = join_path(site.bundle, inherited.get("PYTHONPATH", ""))
        self._environ = inherited | {"PYTHONPATH": path}
        self._steps: dict[tuple[StepName, int], Child] = {}
        self._facts: list[Child] = []
        self._asked_for_facts = 0

    def facts(self, request_path: str, nodes: Sequence[NodeName], image: str | None) -> None:
        """See `Launcher`."""
        self._asked_for_facts += 1
        request = facts_step(self._site, request_path, nodes, image, self._asked_for_facts)
        log = facts_step_log(self._site.attempt.logs, self._asked_for_facts)
        child = self._start(request, log, _no_task, self._listener.on_facts_exit)
        self._facts += [] if child is None else [child]

    def stop_facts(self) -> None:
        """See `Launcher`."""
        for child in self._facts:
            if not child.gone:
                self._end(child)

    def serve(self, step: Step, launch: int, plan: BoundPlan, plan_path: str) -> None:
        """See `Launcher`."""
        request = server_step(self._site, step, launch, plan, plan_path)
        log = f"{self._site.attempt.logs}/{step.name}.{launch}.srun.log"
        child = self._start(
            request,
            log,
            lambda node, code: self._listener.on_task_exit(step.name, launch, node, code),
            lambda code: self._listener.on_step_exit(step.name, launch, code),
        )
        if child is not None:
            self._steps[step.name, launch] = child

    def signal(self, step: StepName, launch: int, signal: Signal) -> None:
        """See `Launcher`."""
        child = self._steps.get((step, launch))
        if child is None:
            return
        if signal == "TERM":
            child.signal_alone(STOP_IN_ORDER)
        else:
            self._end(child)

    def _end(self, child: Child) -> None:
        """Now: ``srun`` kills its tasks on all nodes; when it cannot, it is killed itself."""
        child.signal_alone(signal.SIGTERM)
        killer = threading.Timer(self._patience_s, child.signal, [signal.SIGKILL])
        killer.daemon = True
        killer.start()

    def _start(
        self, request: StepRequest, log: str, task_ended: NodesCallback, step_ended: Callable[[int], None]
    ) -> Child | None:
        command = serve_srun(request, self._version)
        try:
            if command.host_list is not None:
                write_atomic(command.host_list.path, command.host_list.text.encode())
            output = _Log(log, task_ended)
            environ = outer_environment(request.container, self._environ)
            return self._reaper.spawn(
                command.argv, environ, log, on_exit=step_ended, on_line=output.hear, errors="lines"
            )
        except OSError as error:
            with contextlib.suppress(OSError), open(log, "a") as file:
                file.write(f"{error.filename or command.argv[0]}: {error.strerror}\n")
            step_ended(_EXIT_NOT_STARTED)
            return None


class _Log:
    """Keeps what ``srun`` and its tasks print, and hands on the ends of tasks. Used in the reaper's thread."""

    def __init__(self, path: str, task_ended: NodesCallback) -> None:
        self._path, self._task_ended = path, task_ended

    def hear(self, line: str) -> None:
        """A full disk must not end servers that work."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{line}\n".encode())
            finally:
                os.close(descriptor)
        ended = read_srun_line(line)
        for node in ended.nodes if ended is not None else ():
            self._task_ended(node, ended.code if ended is not None else 0)


def _no_task(node: NodeName, code: int) -> None:
    """Facts are judged together, when all nodes have answered."""
