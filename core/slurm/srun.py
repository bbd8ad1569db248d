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

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from core.problem import At, OwnedByPlanner, Problem, VersionUnfit, WrongCombination
from core.slurm.containers import Container, contained_command, container_options
from core.slurm.hostnames import compress_hostlist, in_natural_order
from core.slurm.versions import NEWEST, SlurmVersion
from core.units import NodeName, StepName

LONGEST_WORD = 128 * 1024 - 1
"""Linux refuses longer strings in argv and in the environment (MAX_ARG_STRLEN, the final NUL included)."""

_OWNED = frozenset(
    "--nodes --ntasks --ntasks-per-node --nodelist --overlap --exclusive --exact --mem --mem-per-cpu --mem-per-gpu "
    "--cpus-per-task --gres --gpus --gpus-per-node --gpus-per-task --gpus-per-socket --export --export-file "
    "--kill-on-bad-exit --no-kill --mpi --unbuffered --label --job-name --input --output --error --wait --immediate "
    "--distribution --exclude --jobid --relative --multi-prog --pty --het-group --chdir --async --container "
    "--container-image --container-name --container-mounts --container-env --container-workdir --container-mount-home "
    "--no-container-mount-home --container-entrypoint --no-container-entrypoint --container-save".split()
)
_OWNED_LETTERS = frozenset("NnwcKuJiodexmErDXWIAl")
_SHORT_AND_ALLOWED = frozenset({"-v", "-vv", "-Q"})


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


def extra_args_problems(extra_args: Sequence[str], at: At) -> Iterator[OwnedByPlanner]:
    """Arguments of a profile that would undo what a step needs, for example ``--exclusive``."""
    for index, word in enumerate(extra_args):
        name = word.partition("=")[0]
        short = word.startswith("-") and not word.startswith("--") and word not in _SHORT_AND_ALLOWED
        # srun takes any unambiguous beginning of an option for the option.
        if (
            any(option.startswith(name) for option in _OWNED)
            or (short and word[1:2] in _OWNED_LETTERS)
            or not word.startswith("-")
        ):
            path = f"{at.path}[{index}]" if at.path else f"[{index}]"
            yield OwnedByPlanner(at=At(source=at.source, path=path, line=at.line), name=name, instead=None)


def step_problems(steps: Iterable[StepRequest], version: SlurmVersion | None, at: At) -> Iterator[Problem]:
    """Whether these steps can run side by side for the whole job.

    Two steps on one node need ``--overlap`` in both, which each of ours has; before 22.05 that shares CPUs only, so
    that the second step with GPUs on a node would wait for ever for the first. A step that has no node, or one node
    twice, cannot be asked for.
    """
    release = version or NEWEST
    with_gpus: dict[NodeName, StepName] = {}
    for step in steps:
        if len(set(step.nodes)) != len(step.nodes) or not step.nodes:
            yield WrongCombination(
                at=at, found=f"step {step.name!r} has {len(step.nodes)} nodes", expected="at least one node, each once"
            )
        if not step.gpus_per_node or release.has("overlap-shares-gres"):
            continue
        other = next((with_gpus[node] for node in step.nodes if node in with_gpus), None)
        if other is not None:
            found = f"Slurm {release.text}, where steps {other!r} and {step.name!r} cannot share a node's GPUs"
            yield VersionUnfit(at=at, found=found, expected="Slurm 22.05, or one GPU step per node")
        with_gpus.update(dict.fromkeys(step.nodes, step.name))
