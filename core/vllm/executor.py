"""Which executor runs the workers of a replica.

``uni`` runs one worker inside the engine and ignores all other ranks, so it is right only for a world of one: with two
ranks vLLM accepts it and hangs in the rendezvous. ``ray`` only when asked for. ``mp`` for the rest, also for TP 1 PP 2.
Source: vllm/config/parallel.py and vllm/v1/executor/uniproc_executor.py, 0.32.
"""

from typing import Literal, TypeAlias

from returns.result import Success

from core.outcome import Outcome, refuse
from core.plan.bound import Parallel
from core.problem import At, ExecutorUnfit
from core.vllm.versions import VllmVersion, since

Executor: TypeAlias = Literal["uni", "mp", "ray"]


def choose_executor(
    parallel: Parallel, wanted: Literal["auto", "uni", "mp", "ray"], version: VllmVersion, at: At
) -> Outcome[Executor]:
    """The executor for this shape.

    Errors: `ExecutorUnfit` when the one asked for cannot run the shape, or when the version has no executor for it.
    """
    if wanted == "ray" and parallel.nodes > 1:
        reason = f"a replica over {parallel.nodes} nodes needs a Ray cluster, which is not started here"
        return refuse(ExecutorUnfit(at=at, executor="ray", reason=reason, instead="the executor 'auto'"))
    if wanted == "ray":
        return Success("ray")
    if wanted == "uni" and parallel.world > 1:
        reason = f"it runs one rank and the replica has {parallel.world}"
        return refuse(ExecutorUnfit(at=at, executor="uni", reason=reason, instead="the executor 'auto'"))
    if parallel.nodes > 1 and not version.has("multi-node-mp"):
        reason = f"vLLM {version.text} runs it on one node only, over nodes it does from {since('multi-node-mp')} on"
        return refuse(
            ExecutorUnfit(at=at, executor="mp", reason=reason, instead=f"vLLM {since('multi-node-mp')} or newer")
        )
    if wanted == "auto":
        return Success("uni" if parallel.world == 1 else "mp")
    return Success(wanted)
