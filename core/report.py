"""Problems in words. Lower case, no full stop, the value in quotes or after a colon, one hint to act on."""

from typing import assert_never

import msgspec

from core import problem as p
from core.fetch_answer import FetchFailure


class ProblemReport(msgspec.Struct, frozen=True, kw_only=True):
    """A problem as users and other programs see it."""

    code: str
    source: str
    path: str
    line: int | None
    message: str
    hint: str


_TOKEN = "HF_TOKEN in server.environment, as {type: secret, environment: HF_TOKEN}"
_FETCH_FAILURES: dict[FetchFailure, tuple[str, str]] = {
    "unknown": ("there is none of this name, or it is private", f"check the spelling; a private one needs {_TOKEN}"),
    "gated": ("its owner must let you in first", f"ask for access on the model's page and give {_TOKEN}"),
    "no-revision": ("it has no such revision", "check --revision in server.extra_args"),
    "unreachable": (
        "the hub does not answer there",
        "fetch it where there is a network, with the same HF_HOME (hf download), or give an absolute path as model",
    ),
    "no-space": ("there is no space left in the cache", "free space, or set HF_HOME in server.environment elsewhere"),
    "not-writable": ("the cache may not be written", "set HF_HOME in server.environment to a folder that may"),
    "no-tool": (
        "the Python that runs vLLM has no huggingface_hub",
        "install it there, or set HF_HUB_OFFLINE to 0 in server.environment: then every server fetches for itself",
    ),
    "failed": ("it ended without the model", "look at the log of the download"),
}


def report(problem: p.Problem) -> ProblemReport:
    """Put a problem into words."""
    message, hint = _words(problem)
    return ProblemReport(
        code=str(problem.__struct_config__.tag),
        source=problem.at.source,
        path=problem.at.path,
        line=problem.at.line,
        message=message,
        hint=hint,
    )


def as_text(problem: p.Problem) -> str:
    """Two lines for a terminal: ``run.yaml:12: deployments[0].modle: …`` and the hint below it."""
    said = report(problem)
    where = said.source if said.line is None else f"{said.source}:{said.line}"
    place = f"{where}: {said.path}" if said.path else where
    return f"{place}: {said.message} [{said.code}]\n    hint: {said.hint}"


def in_a_line(said: ProblemReport) -> str:
    """``config.yaml: columns.text: … (hint)``, for lists of reasons."""
    place = ": ".join(part for part in (said.source, said.path) if part)
    return f"{place}: {said.message} ({said.hint})"


def counted(count: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _words(problem: p.Problem) -> tuple[str, str]:
    match problem:
        case p.Unreadable(reason=reason):
            return f"cannot be read: {reason}", "check the path and its permissions"
        case p.Unwritable(path=path, reason=reason):
            return (
                f"{path!r} cannot be written: {reason}",
                "check its permissions and free space, or choose another folder",
            )
        case p.BadSyntax(reason=reason):
            return reason, "mend the syntax at this line"
        case p.ForbiddenSyntax(feature=feature):
            return f"{feature} are not allowed in this file", "write the values out in full"
        case p.DuplicateKey(first_line=first):
            return f"the key stands twice, first in line {first}", "keep one of the two"
        case p.UnknownField(allowed=allowed, suggestion=suggestion):
            hint = f"did you mean {suggestion!r}?" if suggestion else f"known fields: {', '.join(allowed)}"
            return "unknown field", hint
        case p.MissingField(field=field, reason=reason):
            return f"the field {field!r} is missing{f': {reason}' if reason else ''}", f"add {field!r}"
        case p.Malformed(found=found, expected=expected):
            return f"found {found}, expected {expected}", f"write {expected}"
        case p.WrongCombination(found=found, expected=expected):
            return found, expected
        case p.NotUnique(what=what, value=value, first_path=first):
            return f"the {what} {value!r} is already used at {first}", f"choose another {what}"
        case p.UnknownName(what=what, value=value, known=known, suggestion=suggestion):
            names = ", ".join(known) or "none"
            hint = f"did you mean {suggestion!r}?" if suggestion else f"known: {names}"
            return f"no {what} is called {value!r}", hint
        case p.SecretLiteral(name=name):
            return (
                f"{name!r} looks like a secret in plain text",
                "use {type: secret, environment: NAME} and set NAME where you submit",
            )
        case p.OwnedByPlanner(name=name, instead=instead):
            return f"{name!r} is set by dd-slurm", f"use {instead}" if instead else "leave it out"
        case p.GpusNotDivisible(gpus_per_node=gpus, group=group):
            fits = [n for n in range(1, gpus + 1) if gpus % n == 0]
            sizes = ", ".join(map(str, fits[:-1])) + f" or {fits[-1]}" if len(fits) > 1 else str(fits[0])
            return f"{gpus} GPUs per node cannot be shared out in groups of {group}", f"use {sizes}"
        case p.TooFewGpus():
            return _too_few_gpus(problem)
        case p.NodesNotDivisible(nodes=nodes, nodes_per_replica=each):
            return (
                f"{counted(nodes, 'node')} cannot be shared out in replicas of {counted(each, 'node')}",
                f"use a multiple of {counted(each, 'node')}, or another nodes_per_replica",
            )
        case p.RanksNotDivisible():
            ranks = problem.tensor_parallel * problem.pipeline_parallel * problem.data_parallel
            nodes_of_one = counted(problem.nodes_per_replica, "node")
            return (
                f"{ranks} ranks (TP {problem.tensor_parallel} x PP {problem.pipeline_parallel} x "
                f"DP {problem.data_parallel}) cannot be spread evenly over {nodes_of_one} "
                "with whole or evenly cut tensor groups",
                "choose sizes whose product is a multiple of nodes_per_replica, with tensor_parallel a divisor "
                "or a multiple of the ranks per node",
            )
        case p.SharedNodeOverfull(node_group=group, wanted=wanted, gpus_per_node=gpus):
            return (
                f"the shared node {group!r} has {counted(gpus, 'GPU')}, asked for are {', '.join(wanted)}",
                "lower gpus_per_node or change gpu_start_index so that the ranges fit side by side",
            )
        case p.BudgetUnfit(gpus=gpus, needed=needed, reason=reason):
            return (
                f"a budget of {counted(gpus, 'GPU')} does not suffice: {reason}",
                f"give at least {counted(needed, 'GPU')}",
            )
        case p.ExecutorUnfit(executor=executor, reason=reason, instead=instead):
            return f"the executor {executor!r} cannot be used: {reason}", f"use {instead}"
        case p.PathNotMounted(path_on_host=path, mounts=mounts):
            return (
                f"no container mount covers {path!r} (mounted: {', '.join(mounts) or 'nothing'})",
                "add its folder to container_mounts of the profile",
            )
        case p.TooManyShards(records=records, count=count):
            return (
                f"{count} array tasks for {records} records would leave {count - records} without any",
                f"use at most {records} array tasks",
            )
        case p.NotInAllocation():
            return "not set: this does not run inside a Slurm job", "start it with sbatch, or rehearse locally"
        case p.NodeCountMismatch(planned=planned, granted=granted):
            return (
                f"planned for {counted(planned, 'node')}, got {granted}",
                "submit again, or lower the number of nodes",
            )
        case p.CommandFailed(command=command, reason=reason):
            return f"{command!r} failed: {reason}", "check that Slurm's commands work there, and scheduler.bin_path"
        case p.FactsMissing(reason=reason, advice=advice):
            return f"the node did not report: {reason}", advice or "exclude the node, or look at its log"
        case p.DevicesTooFew(planned=planned, found=found):
            return (
                f"{counted(found, 'GPU')} visible, {planned} planned",
                "check gpus_per_node of the profile and the GRES of the node",
            )
        case p.DeviceMaskUnfit(mask=mask, reason=reason, instead=instead):
            return f"the device mask {mask!r} does not fit: {reason}", f"use {instead}"
        case p.PathUnusable(path=path, state=state, wanted=wanted):
            return (
                f"{path!r} is {state}, a {wanted} is needed",
                "check that the file system is mounted and readable there, and the path's spelling",
            )
        case p.PortsExhausted(low=low, high=high, wanted=wanted, taken=taken):
            return (
                f"{wanted} free ports are needed between {low} and {high}, where {taken} are taken",
                "widen ports.range of the profile, below the node's ephemeral ports",
            )
        case p.NoUsableAddress(interface=interface, found=found):
            need = f"on interface {interface!r}" if interface else "that other nodes can reach"
            return (
                f"no address {need}; it has {', '.join(found) or 'none'}",
                "set network.interface of the profile",
            )
        case p.LimitTooLow(what=what, found=amount, needed=needed, unit=unit):
            return f"{what} is {amount} {unit}, {needed} {unit} are needed", f"ask the site to raise {what}"
        case p.VersionUnfit(found=version, expected=expected):
            return f"found {version}, expected {expected}", "use another version, or mend the profile"
        case p.CommandMissing(command=command, folder=folder):
            return (
                f"there is no command {command!r} in {folder or 'the PATH'}",
                "submit on a host of the cluster, or set scheduler.bin_path of the profile",
            )
        case p.PyxisMissing():
            return (
                "Pyxis is not installed: srun knows no option --container-image",
                "ask the site for the Pyxis plug-in of Slurm, or use container: apptainer, or container: none with "
                "vLLM on the nodes",
            )
        case p.SecretNotSet(name=name):
            return f"the variable {name!r} is not set", f"export {name} before you submit; it is not written down"
        case p.HubModelMissing(model=model, cause=cause, detail=detail):
            said, hint = _FETCH_FAILURES[cause]
            return f"the model {model!r} cannot be fetched from the hub: {said} ({detail})", hint
        case p.ClaimMissing():
            return "the client ended without a result", "look at the end of the client's log"
        case p.FileDiffers(file=file, what=what, claimed=claimed, found=found):
            return (
                f"{file!r}: the {what} is not as claimed: {found} instead of {claimed}",
                "let the shard run again; if it happens twice, look at the file system",
            )
        case p.RowsUnknown(files=files):
            return (
                f"none of the files has rows that can be counted: {', '.join(files) or 'no files'}",
                "write a .parquet, .jsonl or .csv file into DD_SLURM_OUTPUT_DIR",
            )
        case p.TooFewRecords(records=records, wanted=wanted):
            return f"{records} records instead of {wanted}", "see the client's log for why rows were dropped"
        case p.DatasetExists(path=path):
            return (
                f"there is a dataset at {path!r} already, and resume is 'never'",
                "set resume to if_possible or always, or move the folder away",
            )
        case p.NothingToResume(path=path):
            return f"resume is 'always', but there is no dataset at {path!r}", "set resume to if_possible or never"
        case p.ConfigUnfit(reason=reason):
            return f"Data Designer refuses the config: {reason}", "mend the config; data-designer validate checks it"
        case p.SubmissionUnclear(at=at, number=number):
            message = f"it is not known whether Slurm has the job of submission {number}"
            return message, f"settle it first: dd-slurm submit {at.source}"
        case p.QueueUnreadable(reason=reason):
            return f"the queue cannot be read, so what runs is not known: {reason}", "try again when Slurm answers"
        case p.PlanChanged(number=number):
            return f"plan.json is not what submission {number} was made from", "put it back, or make a new run"
        case p.ShardNotRetried(at=at, shard=shard, reason=reason):
            return f"shard {shard} gets no new job: {reason}", f"see dd-slurm status {at.source}"
        case p.NothingToRetry(at=at, passed=passed):
            found = "; ".join(passed) or "every shard has its result"
            return f"there is nothing to retry: {found}", f"see dd-slurm status {at.source}"
        case p.ShardsMissing(at=at, shards=shards, count=count):
            listed = ", ".join(map(str, shards[:20])) + (", …" if len(shards) > 20 else "")
            hint = f"see dd-slurm status {at.source}, then retry; --partial merges what there is"
            return f"{len(shards)} of {counted(count, 'shard')} have no result: {listed}", hint
        case p.ColumnsDiffer(shard=shard, reason=reason):
            return f"shard {shard} does not fit to those before it: {reason}", "let that shard run again"
        case p.RecordCountDiffers(records=records, wanted=wanted):
            hint = "retry what is missing, or set output.require_exact_record_count to false in a new run"
            return f"{counted(records, 'record')} instead of exactly {wanted}", hint
        case p.DestinationTaken(path=path, reason=reason):
            return f"{path!r} cannot be the destination: {reason}", "give a new folder with --output"
        case _:
            assert_never(problem)


def _too_few_gpus(problem: p.TooFewGpus) -> tuple[str, str]:
    sizes = (problem.tensor_parallel, problem.pipeline_parallel, problem.data_parallel)
    names = [f"{name} {size}" for name, size in zip(("TP", "PP", "DP"), sizes, strict=True) if size > 1]
    needed = sizes[0] * sizes[1] * sizes[2]
    have = problem.nodes * problem.gpus_per_node
    if problem.gpus_per_node == 0:
        nodes = counted(problem.nodes, "node")
        return (
            f"{counted(sizes[2], 'replica')} cannot stand on {nodes} without GPUs, one on each",
            "add nodes or lower data_parallel",
        )
    return (
        f"one replica of {' x '.join(names) or 'TP 1'} needs {counted(needed, 'GPU')}, "
        f"{counted(problem.nodes, 'node')} of {counted(problem.gpus_per_node, 'GPU')} gives {have}",
        f"add nodes (at least {-(-needed // problem.gpus_per_node)} per replica) or lower tensor_parallel",
    )
