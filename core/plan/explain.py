"""Plans as text that a person understands: what goes where, what is asked of Slurm, what is checked, and why."""

from collections.abc import Iterator, Sequence

from core.config.durations import duration_ms
from core.plan.bound import BoundPlan, Serving
from core.plan.model import CommandClient, DeploymentPlan, RunPlan
from core.plan.ports import DEFAULT_LOW
from core.plan.process_env import REPLACED
from core.plan.shards import shard_of
from core.plan.steps import steps_of
from core.plan.topology import replicas_of
from core.report import counted


def explain(plan: RunPlan) -> str:
    """The whole plan, in a page."""
    replaced = tuple(_replaced(plan))
    parts = (
        (f"run {plan.name} on {plan.site.cluster}",),
        _work(plan),
        _request(plan),
        ("", "models", *_indented(_table(_model_rows(plan)))),
        ("", "where", *_indented(_table(_node_rows(plan)))),
        ("", "when it runs", *_indented(_moments(plan))),
        ("", "checked on every node before a server starts", *_indented(_checks(plan))),
        ("", "replaced", *_indented(replaced)) if replaced else (),
        ("", "why", *_indented(plan.notes)) if plan.notes else (),
    )
    return "\n".join(line.rstrip() for part in parts for line in part) + "\n"


def _work(plan: RunPlan) -> Iterator[str]:
    records, count = plan.invocation.num_records, plan.request.array_count
    sizes = sorted({shard_of(records, count, index).records for index in (0, count - 1)}, reverse=True)
    each = " or ".join(map(str, sizes))
    client = plan.client
    what, resume = "Data Designer", f"; resume {plan.invocation.resume}"
    if isinstance(client, CommandClient):
        what, resume = "the command " + " ".join(client.command), ""
    shards = f"{count} shards of {each}" if count > 1 else "1 shard"
    yield f"  {records} records by {what}, {shards}{resume}"
    yield f"  output: {plan.output.format}, below {plan.site.workspace_root}/runs"


def _request(plan: RunPlan) -> Iterator[str]:
    asked = plan.request
    gpus = "all GPUs (nodes taken whole)" if asked.gpus_per_node is None else counted(asked.gpus_per_node, "GPU")
    yield ""
    yield "asked of Slurm"
    nodes, each = counted(asked.nodes, "node"), " each" * (asked.nodes > 1)
    yield f"  {nodes} with {gpus}{each}, for {asked.time_limit}, as {asked.job_name!r}"
    if asked.array_count > 1:
        yield f"  {asked.array_count} array tasks, at most {asked.max_concurrent} at a time, each with such nodes"
    where = (
        ("partition", ",".join(asked.partitions)),
        ("account", asked.account),
        ("memory per GPU", asked.mem_per_gpu),
    )
    yield "  " + ", ".join(f"{name} {value or 'default'}" for name, value in where)


def _model_rows(plan: RunPlan) -> Iterator[Sequence[str]]:
    yield ("alias", "model", "replicas", "each is", "executor", "GPUs", "when a replica fails")
    for deployment in plan.deployments:
        placement = deployment.placement
        count = "as found" if placement.gpus_per_node is None else str(_replica_count(deployment))
        used = placement.nodes * (placement.gpus_per_node or 0)
        yield (
            deployment.alias,
            deployment.server.model,
            count,
            _shape(deployment),
            deployment.server.executor,
            "all" if placement.gpus_per_node is None else str(used),
            _failure(deployment),
        )


def _replica_count(deployment: DeploymentPlan) -> int:
    placement = deployment.placement
    gpus = [placement.gpus_per_node or 0] * (placement.first_slot + placement.nodes)
    return sum(1 for _ in replicas_of(placement, gpus))


def _shape(deployment: DeploymentPlan) -> str:
    parallel = deployment.placement.parallel
    sizes = (("TP", parallel.tensor), ("PP", parallel.pipeline), ("DP", parallel.data))
    words = " ".join(f"{name} {size}" for name, size in sizes if size > 1 or name == "TP")
    expert = " EP" if parallel.expert else ""
    balanced = f" ({parallel.load_balancing} balancing)" if parallel.data > 1 else ""
    return f"{words}{expert} over {parallel.nodes} node{'s' * (parallel.nodes > 1)}{balanced}"


def _failure(deployment: DeploymentPlan) -> str:
    rule = deployment.on_failure
    if rule.policy == "fail":
        return "the attempt ends"
    least = f", at least {deployment.min_ready_replicas} ready" if deployment.min_ready_replicas else ""
    return f"restart, up to {rule.max_restarts} times{least}"


def _node_rows(plan: RunPlan) -> Iterator[Sequence[str]]:
    yield ("slots", "deployment", "GPUs on each")
    yield ("0", "client and endpoints", "none")
    for deployment in plan.deployments:
        placement = deployment.placement
        last = placement.first_slot + placement.nodes - 1
        slots = str(last) if placement.nodes == 1 else f"{placement.first_slot}-{last}"
        yield (slots, deployment.alias, _gpus(deployment))


def _gpus(deployment: DeploymentPlan) -> str:
    placement = deployment.placement
    if placement.gpus_per_node == 0:
        return "none (CPU)"
    size, start = placement.gpus_per_replica_node, placement.gpu_start
    if placement.gpus_per_node is None:
        return f"all that are found, in groups of {size}"
    groups = [range(first, first + size) for first in range(start, start + placement.gpus_per_node, size)]
    return " ".join(f"[{group[0]}]" if size == 1 else f"[{group[0]}-{group[-1]}]" for group in groups)


def _moments(plan: RunPlan) -> Iterator[str]:
    low, high = plan.site.ports or (DEFAULT_LOW, None)
    below = "" if high is None else f" up to {high}"
    yield f"ports: chosen on the granted nodes from what is free there, from {low}{below}, below the ephemeral ports"
    for deployment in plan.deployments:
        server = deployment.server
        yield (
            f"{deployment.alias}: first replica at once, others after {server.standoff_ms // 1000} s, "
            f"{server.stagger_ms // 1000} s apart on a node; ready within {server.startup_timeout_ms // 1000} s"
        )
    margin = duration_ms(plan.on_time_limit.margin) // 1000
    yield f"{margin} s before the time limit the client is stopped at a checkpoint; resume: {plan.on_time_limit.resume}"


def _checks(plan: RunPlan) -> Iterator[str]:
    yield "GPUs, /dev/shm, open files, free ports, address, vLLM version"
    for deployment in plan.deployments:
        model = deployment.server.model
        what = "readable" if model.startswith("/") else "on the hub; downloaded once where the cache lacks it"
        yield f"{deployment.alias}: {model} ({what}), executable {deployment.server.executable}"


def _replaced(plan: RunPlan) -> Iterator[str]:
    """Variables that the author set and that no process gets."""
    for deployment in plan.deployments:
        for entry in deployment.server.environment:
            if entry.name in REPLACED:
                yield f"{deployment.alias}: the run file's {entry.name} is replaced: {REPLACED[entry.name]}"


def explain_bound(bound: BoundPlan) -> str:
    """Where everything is, once Slurm has granted nodes: one line per job step."""
    rows: list[Sequence[str]] = [("step", "nodes", "processes", "API")]
    by_alias = {deployment.alias: deployment for deployment in bound.deployments}
    for step in steps_of(bound):
        replicas = [r for r in by_alias[step.alias].replicas if r.index in step.replicas]
        lanes = [lane for replica in replicas for lane in replica.lanes]
        apis = [
            f"{bound.nodes[lane.slot].address}:{lane.role.http_port}"
            for lane in lanes
            if isinstance(lane.role, Serving)
        ]
        rows.append((step.name, " ".join(bound.nodes[s].name for s in step.slots), str(len(lanes)), " ".join(apis)))
    return "\n".join(line.rstrip() for line in _table(rows)) + "\n"


def _table(rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> Iterator[str]:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _indented(lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
