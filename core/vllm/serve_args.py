"""The command of one server process, as vLLM's own parser wants it.

One token per element and ``--flag=value``; only ``--served-model-name`` takes its two names as tokens of their own,
because argparse reads several values only so. Runs inside the serving container: standard library and msgspec only.

Source: `vllm serve --help` and `vllm/engine/arg_utils.py` of 0.11.1 to 0.33.
"""

from collections.abc import Iterator

from core.plan.bound import BoundPlan, Headless, Replica, Serving
from core.plan.steps import LaneOf


def serve_argv(plan: BoundPlan, of: LaneOf) -> tuple[str, ...]:
    """Every word of the command, the executable first."""
    return (
        *of.deployment.executable,
        "serve",
        of.deployment.model,
        "--served-model-name",
        of.deployment.served_name,
        of.replica.identity,
        *_listening(plan, of),
        *_sizes(of),
        *_meeting(plan, of),
        *of.deployment.arguments,
    )


def _listening(plan: BoundPlan, of: LaneOf) -> Iterator[str]:
    role = of.lane.role
    if isinstance(role, Serving):
        yield f"--host={plan.nodes[of.lane.slot].address}"
        yield f"--port={role.http_port}"
    else:
        yield "--headless"


def _sizes(of: LaneOf) -> Iterator[str]:
    parallel = of.deployment.parallel
    yield f"--tensor-parallel-size={parallel.tensor}"
    if parallel.pipeline > 1:
        yield f"--pipeline-parallel-size={parallel.pipeline}"
    if parallel.data > 1:
        yield f"--data-parallel-size={parallel.data}"
    if parallel.expert:
        yield "--enable-expert-parallel"


def _meeting(plan: BoundPlan, of: LaneOf) -> Iterator[str]:
    """Where the processes of a replica find one another. Nothing when there is only one."""
    parallel, rank = of.deployment.parallel, of.lane.rank
    leader = leader_address(plan, of.replica)
    if of.replica.master_port is not None:
        yield f"--nnodes={parallel.nodes}"
        yield f"--node-rank={rank}"
        yield f"--master-addr={leader}"
        yield f"--master-port={of.replica.master_port}"
    if of.replica.rpc_port is None:
        return
    yield f"--data-parallel-address={leader}"
    yield f"--data-parallel-rpc-port={of.replica.rpc_port}"
    if of.replica.master_port is None:
        yield from _data_parallel_place(of)


def _data_parallel_place(of: LaneOf) -> Iterator[str]:
    """Which data-parallel ranks this process carries, for the three ways of balancing their load."""
    parallel, rank = of.deployment.parallel, of.lane.rank
    if parallel.load_balancing == "external":
        yield f"--data-parallel-rank={rank}"
        return
    local = parallel.data // parallel.nodes
    yield f"--data-parallel-size-local={local}"
    if parallel.load_balancing == "hybrid":
        yield "--data-parallel-hybrid-lb"
        yield f"--data-parallel-start-rank={rank * local}"
    elif isinstance(of.lane.role, Headless):
        yield f"--data-parallel-start-rank={rank * local}"


def leader_address(plan: BoundPlan, replica: Replica) -> str:
    """Where the ranks of a replica meet."""
    return plan.nodes[replica.lanes[0].slot].address
