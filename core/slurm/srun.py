"""The argv of our job steps: one task per node, on nodes that other steps of ours share.

Every option is said, because ``srun`` takes the others from its environment, and defaults differ between releases:

* ``--overlap``: since 20.11 steps are exclusive; without it the second step waits for ever for the first.
* ``--exact`` with ``--cpus-per-task``: from 22.05 on the job's own count is not inherited, and 1 CPU would be left.
* ``--mem=0``: all memory of the job, not taken from other steps; before 22.05 overlapping steps do not share memory.
* ``--gres``: a step without it inherits all GPUs of the job.
* ``--wait=0``: a site's WaitTime would kill the other tasks some seconds after the first one has ended.
* ``--export=ALL``: ``sbatch --export=…`` leaves SLURM_EXPORT_ENV behind, and steps without PATH.

Source: srun(1) of 20.11 to 26.05 and observations on 22.05.8.
"""

from collections.abc import Iterator

import msgspec

from core.slurm.containers import Container, contained_command, container_options
from core.slurm.hostnames import compress_hostlist, in_natural_order
from core.slurm.versions import NEWEST, SlurmVersion
from core.units import NodeName, StepName

LONGEST_WORD = 128 * 1024 - 1
"""Linux refuses longer strings in argv and in the environment (MAX_ARG_STRLEN, the final NUL included)."""


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One ``srun``. `gpus_per_node` is 0 for a step that must see none, None where Slurm does not manage GPUs.

    `cpus_per_task` None gives all CPUs of the job on each node. `host_list_file` is where the names of the nodes may be
    written, should they be too long for one word. `output` is a file for what the tasks print; None inherits. With
    `kill_on_bad_exit` a task that ends badly ends the others.
    """

    name: StepName
    nodes: tuple[NodeName, ...]
    command: tuple[str, ...]
    host_list_file: str
    gpus_per_node: int | None
    cpus_per_task: int | None = None
    output: str | None = None
    container: Container = None
    kill_on_bad_exit: bool = True
    extra_args: tuple[str, ...] = ()
    srun: str = "srun"


class HostListFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that must stand before the step starts: one name a line."""

    path: str
    text: str


class SrunCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and what to write first."""

    argv: tuple[str, ...]
    host_list: HostListFile | None


def serve_srun(request: StepRequest, version: SlurmVersion | None = None) -> SrunCommand:
    """The step, one token per element and ``--flag=value``. The order of nodes is Slurm's own whatever is listed here.

    `version` None is taken for the newest.
    """
    host_list = compress_hostlist(in_natural_order(request.nodes))
    # A list that contains a slash is taken for the name of a file, and no name of a node contains one.
    too_long = len(f"--nodelist={host_list}".encode()) > LONGEST_WORD
    file = HostListFile(path=request.host_list_file, text="\n".join((*request.nodes, ""))) if too_long else None
    return SrunCommand(
        argv=(
            request.srun,
            *_shape(request, request.host_list_file if too_long else host_list),
            *_resources(request, version or NEWEST),
            *_behaviour(request),
            *container_options(request.container),
            *request.extra_args,
            *contained_command(request.container, request.command),
        ),
        host_list=file,
    )


def _shape(request: StepRequest, node_list: str) -> Iterator[str]:
    yield f"--job-name={request.name}"
    yield f"--nodes={len(request.nodes)}"
    yield f"--ntasks={len(request.nodes)}"
    yield "--ntasks-per-node=1"
    yield f"--nodelist={node_list}"


def _resources(request: StepRequest, version: SlurmVersion) -> Iterator[str]:
    yield "--overlap"
    if request.cpus_per_task is not None:
        yield "--exact"
        yield f"--cpus-per-task={request.cpus_per_task}"
    yield "--mem=0"
    if request.gpus_per_node is not None:
        none = "none" if version.has("gres-none") else "gpu:0"
        yield f"--gres=gpu:{request.gpus_per_node}" if request.gpus_per_node else f"--gres={none}"


def _behaviour(request: StepRequest) -> Iterator[str]:
    yield "--export=ALL"
    yield f"--kill-on-bad-exit={int(request.kill_on_bad_exit)}"
    yield "--wait=0"
    yield "--mpi=none"
    yield "--unbuffered"
    yield "--input=none"
    if request.output is not None:
        yield f"--output={request.output.replace('%', '%%')}"
