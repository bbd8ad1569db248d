"""Job steps of a Slurm allocation: one ``srun`` per step, which starts a node worker on each of its nodes.

Orders go through ``srun``, whose connection to the nodes needs no ``slurmctld``: it forwards USR2, which a node worker
takes for the order to stop, and TERM makes it kill its tasks at once. Observed on 22.05 and documented for all
releases: TERM to ``srun`` gives its tasks no time, so it is never the way to stop in order.
"""

from collections.abc import Mapping, Sequence

from core.layout import facts_step_log
from core.plan.bound import BoundPlan
from core.plan.job_steps import StepSite, facts_step, server_step
from core.plan.process_env import join_path
from core.plan.steps import Step
from core.slurm.containers import outer_environment
from core.slurm.environ import step_environment
from core.slurm.srun import StepRequest, serve_srun
from core.slurm.versions import SlurmVersion
from core.supervise.effects import Signal
from core.units import NodeName, StepName
from shell.launch.launcher import ExitListener
from shell.launch.processes import Reaper
from shell.launch.srun_step import SrunStep, StepCallback, TaskCallback
from shell.store import write_atomic

PATIENCE_S = 10.0
"""How long ``srun`` may take to kill its tasks before it is killed itself; a dead node keeps it waiting."""


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
        self._steps: dict[tuple[StepName, int], SrunStep] = {}
        self._facts: list[SrunStep] = []
        self._asked_for_facts = 0

    def facts(self, request_path: str, nodes: Sequence[NodeName], image: str | None) -> None:
        """See `Launcher`."""
        self._asked_for_facts += 1
        request = facts_step(self._site, request_path, nodes, image, self._asked_for_facts)
        log = facts_step_log(self._site.attempt.logs, self._asked_for_facts)
        step = self._step(request, log, _no_task, self._listener.on_facts_exit, repeatable=True)
        self._facts.append(step)
        step.start()

    def stop_facts(self) -> None:
        """See `Launcher`."""
        for step in self._facts:
            step.signal("KILL")

    def serve(self, step: Step, launch: int, plan: BoundPlan, plan_path: str) -> None:
        """See `Launcher`."""
        request = server_step(self._site, step, launch, plan, plan_path)
        log = f"{self._site.attempt.logs}/{step.name}.{launch}.srun.log"
        started = self._step(
            request,
            log,
            lambda node, code: self._listener.on_task_exit(step.name, launch, node, code),
            lambda code: self._listener.on_step_exit(step.name, launch, code),
        )
        self._steps[step.name, launch] = started
        started.start()

    def signal(self, step: StepName, launch: int, signal: Signal) -> None:
        """See `Launcher`."""
        started = self._steps.get((step, launch))
        if started is not None:
            started.signal(signal)

    def _step(
        self,
        request: StepRequest,
        log: str,
        task_ended: TaskCallback,
        step_ended: StepCallback,
        repeatable: bool = False,
    ) -> SrunStep:
        command = serve_srun(request, self._version)
        if command.host_list is not None:
            write_atomic(command.host_list.path, command.host_list.text.encode())
        environ = outer_environment(request.container, self._environ)
        return SrunStep(self._reaper, command.argv, environ, log, task_ended, step_ended, self._patience_s, repeatable)


def _no_task(node: NodeName, code: int) -> None:
    """Facts are judged together, when all nodes have answered."""
