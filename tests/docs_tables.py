"""Tables of the documentation, worked out from the types that they describe."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import inspect

from core import problem as p
from core.config import fields
from core.problem import At
from core.report import as_text

Row: TypeAlias = tuple[str, str, str]
"""A field, its type and its default, as they stand in a table."""

NAMED = {
    "id": fields.Id,
    "duration": fields.Duration,
    "duration or 0": fields.DurationOrZero,
    "time limit": fields.TimeLimit,
    "absolute path": fields.AbsolutePath,
    "variable": fields.VariableName,
    "partitions": fields.Partitions,
    "line": fields.OneLine,
    "word": fields.Word,
    "version": fields.VersionText,
}


def describe(kind: object) -> str:
    """The words of a type for people."""
    return str(_described(inspect.type_info(kind)))


def _described(kind: inspect.Type) -> str | None:
    return (kind.extra_json_schema or {}).get("description") if isinstance(kind, inspect.Metadata) else None


def rows(struct: type[msgspec.Struct]) -> list[Row]:
    """Every field below a struct, in declared order, as ``deployments[].server.image.name``."""
    known = inspect.type_info(struct)
    assert isinstance(known, inspect.StructType)
    return list(dict.fromkeys(_rows(known, "")))


def _rows(struct: inspect.StructType, path: str) -> Iterator[Row]:
    if isinstance(struct.tag, str):
        yield f"{path}{struct.tag_field}", f"`{struct.tag}`", "required"
    for field in struct.fields:
        here = f"{path}{field.encode_name}"
        yield here, type_words(field.type), _default(field)
        for below, suffix in _structs(field.type):
            yield from _rows(below, f"{here}{suffix}.")


def _structs(kind: inspect.Type, suffix: str = "") -> Iterator[tuple[inspect.StructType, str]]:
    match kind:
        case inspect.Metadata(type=bare, extra=extra) if (extra or {}).get("authored") == "mapping":
            inside = _bare(bare)
            assert isinstance(inside, inspect.VarTupleType)
            entry = _bare(inside.item_type)
            assert isinstance(entry, inspect.StructType)
            yield from _structs(entry.fields[1].type, f".<{entry.fields[0].encode_name}>")
        case inspect.Metadata(type=bare):
            yield from _structs(bare, suffix)
        case inspect.UnionType(types=types):
            for choice in types:
                yield from _structs(choice, suffix)
        case inspect.VarTupleType(item_type=item):
            yield from _structs(item, f"{suffix}[]")
        case inspect.StructType():
            yield kind, suffix
        case _:
            return


def _bare(kind: inspect.Type) -> inspect.Type:
    return _bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def type_words(kind: inspect.Type) -> str:
    """A type in a few words; the named ones are explained above the table."""
    if isinstance(kind, inspect.Metadata):
        return _annotated(kind)
    match kind:
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(type_words(choice) for choice in types))
        case inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case inspect.VarTupleType(item_type=item):
            return f"list of {type_words(item)}"
        case inspect.TupleType(item_types=items):
            return f"list of {len(items)}: {type_words(items[0])}"
        case inspect.StructType():
            return "mapping"
        case inspect.IntType(ge=low, le=high):
            bounds = f" from {low}" if low is not None else ""
            return f"number{bounds}" + (f" to {high}" if high is not None else "")
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true, false"
        case _:
            return "null"


def _annotated(kind: inspect.Metadata) -> str:
    authored = (kind.extra or {}).get("authored")
    words = _described(kind)
    known = next((name for name, named in NAMED.items() if words == describe(named)), None)
    if authored == "mapping":
        return "mapping"
    if authored == "json":
        return "any JSON value"
    return known or words or type_words(kind.type)


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default
    if isinstance(value, msgspec.Struct) or value == ():
        return ""
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table(struct: type[msgspec.Struct], meanings: Mapping[str, str]) -> str:
    """The table of a struct; `meanings` are the words that people wrote for its fields."""
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field, kind, default in rows(struct):
        lines.append(f"| `{field}` | {kind} | {default} | {meanings.get(field, '')} |")
    return "\n".join(lines)


def meanings_in(text: str) -> dict[str, str]:
    """What the tables of a page say about fields: the last column by the first."""
    cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in text.splitlines()]
    return {row[0].strip("` "): row[3].strip() for row in cells if len(row) == 4 and row[0].startswith("`")}


def named_types() -> str:
    """The names of types that the tables use."""
    lines = ["| type | what it is |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {describe(kind)} |" for name, kind in NAMED.items())])


RUN = At(source="run.yaml", path="deployments[0].topology", line=14)
NODE = At(source="node gpu07")
CLAIM = At(source="claim.json")
RUN = At(source="/scratch/me/runs/reviews-1")
EXAMPLES: tuple[p.Problem, ...] = (
    p.Unreadable(
        at=At(source="run.yaml", path="builder.source", line=5), reason="config.yaml: No such file or directory"
    ),
    p.Unwritable(at=At(source="workspace"), path="/scratch/me", reason="Permission denied"),
    p.BadSyntax(at=At(source="run.yaml", line=7), reason="mapping values are not allowed here"),
    p.ForbiddenSyntax(at=At(source="run.yaml", line=3), feature="anchors"),
    p.DuplicateKey(at=At(source="run.yaml", path="name", line=9), first_line=2),
    p.UnknownField(at=At(source="run.yaml", path="deployments[0].modle", line=9), allowed=(), suggestion="model"),
    p.MissingField(at=At(source="run.yaml", path="deployments[0]", line=8), field="model_alias"),
    p.Malformed(at=At(source="run.yaml", path="submission.time_limit", line=20), found="'4h'", expected="a time limit"),
    p.WrongCombination(
        at=At(source="run.yaml", path="deployments[0].resources", line=11),
        found="resources are given together with gpu_budget",
        expected="leave resources out and let gpu_budget decide, or leave gpu_budget out",
    ),
    p.NotUnique(
        at=At(source="run.yaml", path="deployments[1].model_alias", line=12),
        what="model alias",
        value="writer",
        first_path="deployments[0]",
    ),
    p.UnknownName(
        at=At(source="profiles.yaml", path="clusters", line=5),
        what="cluster",
        value="smal",
        known=("small", "big"),
        suggestion="small",
    ),
    p.SecretLiteral(
        at=At(source="run.yaml", path="deployments[0].server.environment.HF_TOKEN", line=15), name="HF_TOKEN"
    ),
    p.OwnedByPlanner(
        at=At(source="run.yaml", path="deployments[0].server.extra_args[0]", line=13),
        name="--tensor-parallel-size",
        instead="topology.tensor_parallel",
    ),
    p.GpusNotDivisible(at=RUN, gpus_per_node=8, group=6),
    p.TooFewGpus(at=RUN, tensor_parallel=8, pipeline_parallel=2, data_parallel=1, nodes=1, gpus_per_node=8),
    p.NodesNotDivisible(at=RUN, nodes=5, nodes_per_replica=2),
    p.RanksNotDivisible(at=RUN, tensor_parallel=3, pipeline_parallel=2, data_parallel=1, nodes_per_replica=4),
    p.SharedNodeOverfull(at=RUN, node_group="pair", wanted=("writer: 0-5", "judge: 4-7"), gpus_per_node=8),
    p.BudgetUnfit(
        at=At(source="run.yaml", path="gpu_budget", line=6),
        gpus=8,
        needed=16,
        reason="one replica of each model takes writer 8, judge 8 GPUs, on nodes of 8",
    ),
    p.ExecutorUnfit(at=RUN, executor="uni", reason="it runs one rank and the replica has 2", instead="auto"),
    p.PathNotMounted(
        at=At(source="run.yaml", path="deployments[0].model", line=9), path_on_host="/scratch/m", mounts=("/models",)
    ),
    p.TooManyShards(at=At(source="run.yaml", path="array_tasks.count", line=18), records=3, count=4),
    p.NotInAllocation(at=At(source="the environment", path="SLURM_JOB_ID")),
    p.CommandFailed(at=p.At(source="the allocation"), command="srun --version", reason="not found"),
    p.NodeCountMismatch(at=At(source="the allocation", path="SLURM_JOB_NODELIST"), planned=4, granted=3),
    p.FactsMissing(at=NODE, reason="no facts file"),
    p.DevicesTooFew(at=NODE, planned=8, found=7),
    p.DeviceMaskUnfit(at=NODE, mask="MIG-1f2e", reason="vLLM 0.10.2 reads indices only", instead="use indices"),
    p.PathUnusable(at=NODE, path="/models/writer", state="missing", wanted="directory"),
    p.PortsExhausted(at=NODE, low=20000, high=20099, wanted=520, taken=3),
    p.NoUsableAddress(at=NODE, interface="ib0", found=("eth0 10.0.0.7",)),
    p.LimitTooLow(at=NODE, what="/dev/shm", found=64, needed=1024, unit="MiB"),
    p.VersionUnfit(at=NODE, found="vLLM 0.10.2", expected="vLLM 0.11.1, as planned"),
    p.CommandMissing(
        at=At(source="cluster small", path="scheduler.bin_path"), command="sbatch", folder="/opt/slurm/bin"
    ),
    p.PyxisMissing(at=At(source="cluster small", path="container")),
    p.SecretNotSet(at=At(source="run file", path="deployments[0].server.environment.HF_TOKEN"), name="HF_TOKEN"),
    p.HubModelMissing(
        at=NODE,
        model="lab/writer-70b",
        cause="gated",
        detail="GatedRepoError: access is restricted",
    ),
    p.ClaimMissing(at=CLAIM),
    p.FileDiffers(at=CLAIM, file="dataset/batch_00000.parquet", what="size", claimed="4096", found="1024"),
    p.RowsUnknown(at=CLAIM, files=("notes.txt",)),
    p.TooFewRecords(at=CLAIM, records=47, wanted=48),
    p.DatasetExists(at=At(source="run.yaml", path="invocation.resume"), path="output/reviews"),
    p.NothingToResume(at=At(source="run.yaml", path="invocation.resume"), path="output/reviews"),
    p.ConfigUnfit(at=At(source="builder.json", path="columns[2]"), reason="no model config with alias 'writer'"),
    p.SubmissionUnclear(at=RUN, number=2),
    p.QueueUnreadable(at=RUN, reason="Unable to contact slurm controller (connect failure)"),
    p.PlanChanged(at=RUN, number=1),
    p.ShardNotRetried(at=RUN, shard=3, reason="it is running"),
    p.NothingToRetry(at=RUN, passed=("shard 3: it is running",)),
    p.ShardsMissing(at=RUN, shards=(3, 7), count=8),
    p.ColumnsDiffer(at=RUN, shard=3, reason="it has no column 'text'"),
    p.RecordCountDiffers(at=RUN, records=990, wanted=1000),
    p.DestinationTaken(at=RUN, path="/scratch/me/reviews", reason="it is not empty"),
)
"""One of each kind, with facts that can really occur."""


def problem_pages() -> str:
    """One section per problem: its code, what it means, and how it reads."""
    return "\n\n".join(_problem(example) for example in EXAMPLES)


def _problem(example: p.Problem) -> str:
    meaning = " ".join((type(example).__doc__ or "").split()).replace("|", "\\|")
    return f"### `{example.__struct_config__.tag}`\n\n{meaning}\n\n```\n{as_text(example)}\n```"
