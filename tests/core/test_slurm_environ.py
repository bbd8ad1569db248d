"""What srun and sbatch inherit."""

from collections.abc import Callable, Mapping

import pytest

from core.slurm.environ import step_environment, submit_environment

INSIDE_A_STEP = {
    # The controller itself was started by srun.
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x3",
    "SLURM_CPU_BIND_LIST": "0x3",
    "SLURM_NTASKS": "2",
    "SLURM_NPROCS": "2",
    "SLURM_CPUS_PER_TASK": "8",
    "SLURM_TRES_PER_TASK": "cpu=8",
    "SLURM_MEM_PER_CPU": "100",
    "SLURM_PROCID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_GPUS": "0,1",
    "SLURM_JOB_GPUS": "0,1",
    "SLURM_GPUS_ON_NODE": "2",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_HOSTFILE": "/hosts",
    "SLURM_DISTRIBUTION": "arbitrary",
    "SLURM_NODELIST": "c[1-2]",
    "SLURMD_NODENAME": "c1",
    "_SLURM_SPANK_OPTION_pyxis_container_image": "old",
    "SRUN_CPUS_PER_TASK": "8",
    "SBATCH_PARTITION": "debug",
    "PMI_FD": "3",
    "PMI2_JOBID": "1",
    "PMIX_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "ROCR_VISIBLE_DEVICES": "0,1",
}
OF_THE_JOB = {
    "SLURM_JOB_ID": "5",
    "SLURM_JOB_NODELIST": "c[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_ARRAY_JOB_ID": "4",
    "SLURM_ARRAY_TASK_ID": "1",
    "SLURM_CLUSTER_NAME": "lab",
}
EVERYWHERE = {
    "PATH": "/bin",
    "HF_TOKEN": "s",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURMER": "a name of a user's own",
}
ALL = INSIDE_A_STEP | OF_THE_JOB | EVERYWHERE


def test_a_step_keeps_the_job_and_loses_what_steers_srun() -> None:
    assert step_environment(ALL) == OF_THE_JOB | EVERYWHERE


def test_a_submission_from_inside_a_job_knows_nothing_of_it() -> None:
    assert submit_environment(ALL) == EVERYWHERE


@pytest.mark.parametrize("scrub", [step_environment, submit_environment])
def test_scrubbing_twice_changes_nothing(scrub: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
    assert scrub(scrub(ALL)) == scrub(ALL)
