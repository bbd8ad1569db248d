"""From a plan to one submission: which directives, for which shards, under which name."""

from collections.abc import Sequence

import msgspec

from core.config.durations import duration_ms
from core.plan.model import DataDesignerClient, RunPlan
from core.slurm.sbatch import ArrayRequest, BatchRequest
from core.submit.records import Retry
from core.units import NodeName


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is besides its plan: its name and its places. `log_dir` is where Slurm writes the job's own output."""

    run_id: str
    run_dir: str
    log_dir: str
    python: str
    bundle: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a run: `indices` None for all shards. `after_job` must have ended before it starts."""

    indices: tuple[int, ...] | None = None
    after_job: str | None = None
    retry: Retry | None = None


ALL = Wanted()


def batch_request(plan: RunPlan, facts: RunFacts, number: int, wanted: Wanted = ALL) -> BatchRequest:
    """Submission `number` of a run. Always rendered next by `render_batch`, which judges every field.

    Requeueing: a job that starts again makes a new attempt with a folder of its own, and one result wins; so it is
    safe for Data Designer. What else a client command of the user does twice nobody knows, so it is not requeued.
    """
    asked = plan.request
    return BatchRequest(
        run_id=facts.run_id,
        number=number,
        label=asked.job_name,
        nodes=asked.nodes,
        gpu_request_mode="visible" if asked.gpus_per_node is None else "gres",
        gpus_per_node=asked.gpus_per_node or 0,
        cpus_per_node=asked.client_cpus,
        mem_per_gpu=asked.mem_per_gpu,
        account=asked.account,
        partitions=asked.partitions,
        time_limit=(wanted.retry and wanted.retry.time_limit) or asked.time_limit,
        comment=asked.comment,
        array=_array(asked.array_count, asked.max_concurrent, wanted.indices),
        excluded=tuple(map(NodeName, wanted.retry.excluded)) if wanted.retry else (),
        after_job=wanted.after_job,
        requeue=isinstance(plan.client, DataDesignerClient),
        margin_s=duration_ms(plan.on_time_limit.margin) // 1000,
        log_dir=facts.log_dir,
        run_dir=facts.run_dir,
        python=facts.python,
        bundle=facts.bundle,
    )


def shards_of(plan: RunPlan, wanted: Wanted) -> tuple[int, ...] | None:
    """The indices of the array; None for a run of one shard, which is a plain job."""
    array = _array(plan.request.array_count, plan.request.max_concurrent, wanted.indices)
    return array.indices if array else None


def _array(count: int, max_concurrent: int, indices: Sequence[int] | None) -> ArrayRequest | None:
    if count == 1:
        return None
    chosen = tuple(range(count)) if indices is None else tuple(sorted(set(indices)))
    return ArrayRequest(indices=chosen, max_concurrent=max_concurrent)
