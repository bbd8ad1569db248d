"""How the controller starts and ends job steps, whatever carries them: `srun`, or processes of this machine."""

from collections.abc import Sequence
from typing import Protocol

from core.plan.bound import BoundPlan
from core.plan.steps import Step
from core.supervise.effects import Signal
from core.units import NodeName, StepName


class ExitListener(Protocol):
    """Who is told. Called from another thread: hand it on and come back. Codes are negative for a signal."""

    def on_facts_exit(self, code: int) -> None:
        """All workers that gather facts have ended; 0 when each of them wrote its report."""

    def on_task_exit(self, step: StepName, launch: int, node: NodeName, code: int) -> None:
        """The node worker of one node has ended; the others may go on."""

    def on_step_exit(self, step: StepName, launch: int, code: int) -> None:
        """The step is gone on all nodes. Told once, after all of its tasks."""


class Launcher(Protocol):
    """Carries job steps. Call it from one thread that lives as long as the controller. Nothing here waits."""

    def facts(self, request_path: str, nodes: Sequence[NodeName], image: str | None) -> None:
        """Let these nodes say what they have, and what there is in the image; answered by `on_facts_exit`."""

    def stop_facts(self) -> None:
        """End every gathering of facts now; each is answered by `on_facts_exit`."""

    def serve(self, step: Step, launch: int, plan: BoundPlan, plan_path: str) -> None:
        """Start a step: one node worker per node, all reading `plan_path`; answered by `on_step_exit`, also when
        nothing could be started."""

    def signal(self, step: StepName, launch: int, signal: Signal) -> None:
        """TERM ends a step in order, KILL ends it now. Nothing when it is gone."""
