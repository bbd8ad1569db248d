"""Which variables go on to Slurm's commands.

``srun`` and ``sbatch`` take options from their environment, so what an outer job or step left there would steer ours:
CPU binding, task counts, memory, GRES, export lists (an environment variable even wins over an ``#SBATCH`` line). We
say every option in argv, and hand on only what names the job, the cluster and the user.

Source: "INPUT ENVIRONMENT VARIABLES" of srun and sbatch, 20.11 to 26.05.
"""

from collections.abc import Mapping

_ANYWHERE = frozenset("SLURM_CONF SLURM_CONF_SERVER SLURM_CLUSTERS SLURM_JWT SLURM_TIME_FORMAT".split())
"""How commands reach Slurm; the same inside and outside of a job."""
_OF_THE_JOB = _ANYWHERE | frozenset(
    "SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NAME SLURM_JOB_NODELIST SLURM_JOB_NUM_NODES SLURM_JOB_ACCOUNT "
    "SLURM_JOB_PARTITION SLURM_JOB_QOS SLURM_JOB_RESERVATION SLURM_JOB_USER SLURM_JOB_UID SLURM_JOB_GID "
    "SLURM_JOB_START_TIME SLURM_JOB_END_TIME SLURM_JOB_CPUS_PER_NODE SLURM_CLUSTER_NAME SLURM_WORKING_CLUSTER "
    "SLURM_SUBMIT_DIR SLURM_SUBMIT_HOST SLURM_RESTART_COUNT SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID "
    "SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_MAX SLURM_ARRAY_TASK_STEP".split()
)
_DROPPED_PREFIXES = (
    *("SLURM_", "SLURMD_", "SLURMSTEPD_", "_SLURM_", "SRUN_", "SBATCH_", "SALLOC_"),
    *("PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "MPIRUN_", "HYDRA_", "PYXIS_"),
)
_DEVICE_MASKS = frozenset(
    "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ZE_AFFINITY_MASK".split()
)
"""They are about the batch host; Slurm sets a step's own on every node, or leaves them unset."""


def step_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What an ``srun`` of ours starts with, also when the controller itself runs inside a step."""
    return _scrub(environ, _OF_THE_JOB)


def submit_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What an ``sbatch`` of ours starts with, also when it is called from inside a job."""
    return _scrub(environ, _ANYWHERE)


def query_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What ``squeue``, ``sacct``, ``scontrol`` and ``scancel`` of ours start with: their output has one form only."""
    kept = submit_environment(environ)
    formats = ("SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SINFO_")
    plain = {name: value for name, value in kept.items() if not name.startswith(formats)}
    plain.pop("SLURM_TIME_FORMAT", None)
    return plain | {"LC_ALL": "C"}


def _scrub(environ: Mapping[str, str], kept: frozenset[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in kept or not (name in _DEVICE_MASKS or name.startswith(_DROPPED_PREFIXES))
    }
