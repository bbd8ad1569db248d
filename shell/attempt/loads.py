"""Who is asked how loaded it is: the servers that endpoints route to. The asking itself is `shell.attempt.sampling`."""

import contextlib
import threading
from collections.abc import Callable, Sequence

import msgspec

from core.endpoint_spec import BackendAddress, LoadLine
from core.plan.bound import BoundPlan, Serving
from core.plan.steps import Step
from core.supervise.events import ServerStalled
from core.units import Alias, Port, StepName
from shell.endpoint.line_file import LineFile


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A server with an API. `id` is how its endpoint calls it; a new launch has a new one."""

    id: str
    alias: Alias
    step: StepName
    launch: int
    url_host: str
    port: Port

    @property
    def address(self) -> BackendAddress:
        """As endpoints are told."""
        return BackendAddress(id=self.id, url_host=self.url_host, port=self.port)


def targets_of(bound: BoundPlan, step: Step, launch: int) -> tuple[Target, ...]:
    """The servers of a launch that have an API, in order."""
    deployment = next(d for d in bound.deployments if d.alias == step.alias)
    lanes = (lane for index in step.replicas for lane in deployment.replicas[index].lanes)
    serving = [(lane.slot, lane.role.http_port) for lane in lanes if isinstance(lane.role, Serving)]
    return tuple(
        Target(
            id=f"{step.name}.{launch}.{index}",
            alias=step.alias,
            step=step.name,
            launch=launch,
            url_host=bound.nodes[slot].address,
            port=port,
        )
        for index, (slot, port) in enumerate(serving)
    )


class Loads:
    """Samples the servers of one attempt, from the first route to `close`. What it is given is called in a thread."""

    def __init__(
        self,
        samples: str,
        token: str,
        tell: Callable[[Alias, LoadLine], None],
        report: Callable[[ServerStalled], None],
        in_background: Callable[[Callable[[], None]], None],
    ) -> None:
        self._samples, self._token = samples, token
        self._tell, self._report, self._in_background = tell, report, in_background
        self._by_alias: dict[Alias, tuple[Target, ...]] = {}
        self._targets: dict[str, Target] = {}
        self._begun = False
        self._stop: Callable[[], object] | None = None
        self._closed = threading.Event()

    def watch(self, alias: Alias, targets: Sequence[Target]) -> None:
        """From the next round on ask exactly these servers of the model."""
        self._by_alias[alias] = tuple(targets)
        self._targets = {target.id: target for group in self._by_alias.values() for target in group}
        if not self._begun:
            self._begun = True
            self._in_background(self._run)

    def close(self) -> None:
        """Stop asking, at once."""
        self._closed.set()
        if self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
                self._stop()

    def _run(self) -> None:
        from shell.attempt import sampling  # takes a tenth of a second that no launch should wait for

        file = LineFile(self._samples)
        sampler = sampling.Sampler(
            lambda: self._targets,
            self._tell,
            self._report,
            file.add,
            every_s=sampling.EVERY_S,
            stall_after_ms=sampling.STALL_AFTER_MS,
        )
        try:
            sampling.run(sampler, self._token, self._closed.is_set, file.flush, self._may_be_stopped)
        finally:
            file.close()

    def _may_be_stopped(self, stop: Callable[[], object]) -> None:
        self._stop = stop
