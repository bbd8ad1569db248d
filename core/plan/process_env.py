"""The environment of one server process: what is taken over, what is removed, what is set.

Prefix, never replace: PYTHONPATH is the bundle, then what was configured or inherited, in order and without an empty
entry (which would mean the current folder). Secrets come from the node worker's own environment by name. Runs inside
the serving container: standard library and msgspec only.
"""

from collections.abc import Iterator, Mapping

from core.plan.bound import BoundPlan, EnvSecret, EnvVar
from core.plan.steps import LaneOf

INTERNAL_PORTS = 64
"""How many ports a process may scan upwards from VLLM_PORT for its internal sockets."""

_KEPT_SLURM = frozenset(
    "SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NAME SLURM_JOB_NODELIST SLURM_NODELIST SLURM_JOB_NUM_NODES SLURM_JOB_ACCOUNT "
    "SLURM_JOB_PARTITION SLURM_JOB_USER SLURM_JOB_UID SLURM_CLUSTER_NAME SLURM_CONF SLURM_SUBMIT_DIR SLURM_SUBMIT_HOST "
    "SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_RESTART_COUNT SLURM_JOB_END_TIME SLURM_JOB_START_TIME "
    "SLURMD_NODENAME".split()
)
_DROPPED_PREFIXES = ("SLURM", "SRUN_", "PMI_", "PMIX_", "OMPI_", "VLLM_DP_", "DD_SLURM_")
_DROPPED = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT VLLM_HOST_IP VLLM_PORT VLLM_API_KEY "
    "VLLM_LOOPBACK_IP CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL "
    "ZE_AFFINITY_MASK".split()
)
_CACHES = ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
_OWN_CACHE = "each process has a cache of its own, since two that write one at the same time break it"
REPLACED = {
    "TORCHINDUCTOR_CACHE_DIR": _OWN_CACHE,
    "TRITON_CACHE_DIR": _OWN_CACHE,
    "VLLM_ENGINE_READY_TIMEOUT_S": "it follows from startup_timeout, so that vLLM does not give up earlier",
}
"""What a run file may say and no process gets, and why. Other names of ours are refused when the file is read."""
_HANDED_ON = "DD_SLURM_SIMULATE"
"""What the stand-in server is told; the only names of ours that a server process sees."""


def inherited_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What a server process takes over from its node worker: all but step-scoped and per-process variables.

    `srun` and MPI inputs of an outer step (CPU binding, task counts, PMI) would steer or hang a child (DESIGN 4.7).
    """
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT_SLURM
        or name.startswith(_HANDED_ON)
        or (name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES))
    }


def missing_secrets(of: LaneOf, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of variables that the plan refers to and the node worker does not have."""
    return tuple(
        item.environment
        for item in of.deployment.environment
        if isinstance(item, EnvSecret) and item.environment not in environ
    )


def process_environment(plan: BoundPlan, of: LaneOf, environ: Mapping[str, str], scratch: str) -> dict[str, str]:
    """The whole environment of a process. `scratch` is a short folder on the node that only this attempt uses."""
    configured = {
        item.name: item.value if isinstance(item, EnvVar) else environ[item.environment]
        for item in of.deployment.environment
        if isinstance(item, EnvVar) or item.environment in environ
    }
    inherited = inherited_variables(environ)
    python_path = join_path(plan.bundle, configured.get("PYTHONPATH", inherited.get("PYTHONPATH", "")))
    defaults = dict(_network(plan, of)) | {"NO_PROXY": no_proxy(plan, of, inherited)}
    defaults |= {"no_proxy": defaults["NO_PROXY"], "VLLM_NO_USAGE_STATS": "1", "PYTHONNOUSERSITE": "1"}
    return inherited | defaults | configured | dict(_owned(plan, of, scratch)) | {"PYTHONPATH": python_path}


def join_path(first: str, rest: str) -> str:
    """A search path that begins with `first`, then the entries of `rest` in order; no empty entry, none twice."""
    entries = [first, *rest.split(":")]
    return ":".join(dict.fromkeys(entry for entry in entries if entry))


def no_proxy(plan: BoundPlan, of: LaneOf, inherited: Mapping[str, str]) -> str:
    """Hosts that a server reaches without a proxy: this machine, its node and its leader, and those already listed."""
    own = (plan.nodes[of.lane.slot].address, plan.nodes[of.replica.lanes[0].slot].address)
    return no_proxy_with(inherited, own)


def no_proxy_with(inherited: Mapping[str, str], hosts: tuple[str, ...]) -> str:
    """The list of hosts without a proxy, with this machine and `hosts` added."""
    known = (inherited.get("NO_PROXY") or inherited.get("no_proxy") or "").split(",")
    return ",".join(dict.fromkeys(host for host in (*known, "localhost", "127.0.0.1", *hosts) if host))


def _network(plan: BoundPlan, of: LaneOf) -> Iterator[tuple[str, str]]:
    interface = plan.nodes[of.lane.slot].interface
    if interface is not None and of.deployment.parallel.nodes > 1:
        yield "GLOO_SOCKET_IFNAME", interface
        yield "NCCL_SOCKET_IFNAME", interface


def _owned(plan: BoundPlan, of: LaneOf, scratch: str) -> Iterator[tuple[str, str]]:
    """Set per process, whatever was configured: two processes must not share any of these."""
    node, lane = plan.nodes[of.lane.slot], of.lane
    yield node.gpu_variable, ",".join(node.gpus[index] for index in lane.gpu_indices)
    yield "VLLM_HOST_IP", node.address
    if lane.internal_port is not None:
        yield "VLLM_PORT", str(lane.internal_port)
    for name in _CACHES:
        yield name, f"{scratch}/{of.name}/{name.split('_')[0].lower()}"
    yield "VLLM_RPC_BASE_PATH", f"{scratch}/{of.name}"
    yield "VLLM_ENGINE_READY_TIMEOUT_S", str(-(-of.deployment.startup_timeout_ms // 1000))
