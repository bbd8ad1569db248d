"""What the client process is told at its start, and the files with which it answers.

`client.json` is a `ClientSpec`. The client answers with `prepared.json` (`Prepared` or `Refused`), rewrites
`progress.json` (`Progress`) while it works, and ends with `claim.json` (`Claim`, from `core.result`) or with
`error.json` (`ClientError`). Paths are absolute; tokens stand in files of their own and never here.
"""

from typing import Literal, TypeAlias

import msgspec

from core.config.run_config import Invocation
from core.layout import AttemptPaths
from core.plan.model import CommandClient, DataDesignerClient, RunPlan
from core.plan.shards import Shard
from core.report import ProblemReport
from core.units import Alias


class ModelEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where one model answers: ``http://127.0.0.1:PORT/v1``, under which name, with whose bearer token."""

    alias: Alias
    base_url: str
    model: str
    token_file: str | None = None


class DesignerWork(msgspec.Struct, frozen=True, kw_only=True, tag="data-designer", tag_field="kind"):
    """Make a dataset with Data Designer. Relative seed paths of the config are looked up in `base_folder` first.

    `builder` is a copy of the config, `source` the author's file; None when it stands in the run file.
    """

    builder: str
    source: str | None = None
    base_folder: str | None
    invocation: Invocation


class CommandWork(msgspec.Struct, frozen=True, kw_only=True, tag="command", tag_field="kind"):
    """Run another program, in `folder` when one is given."""

    command: tuple[str, ...]
    folder: str | None


ClientWork: TypeAlias = DesignerWork | CommandWork


class ClientFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where the client writes: `output` is the folder of the dataset."""

    prepared: str
    progress: str
    claim: str
    error: str
    output: str


class ClientSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a client process needs to know. `total_records` are those of all shards together."""

    work: ClientWork
    endpoints: tuple[ModelEndpoint, ...]
    shard: Shard
    shard_count: int
    total_records: int
    files: ClientFiles


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag="prepared", tag_field="kind"):
    """The work has been read and fits; the client waits for the word to begin."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused", tag_field="kind"):
    """The work cannot be done as it is written."""

    problems: tuple[ProblemReport, ...]


Preparation: TypeAlias = Prepared | Refused


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Records that would survive a restart of the client, out of those of its shard."""

    records_done: int
    records_wanted: int
    at_unix_ms: int


class ClientError(msgspec.Struct, frozen=True, kw_only=True):
    """Why the client failed. `error` is the class of an exception of Data Designer, `causes` those behind it, outermost
    first; None where there was none."""

    error: str | None
    message: str
    hint: str
    causes: tuple[str, ...]
    exit_code: Literal[65, 70, 75]

    @property
    def said(self) -> str:
        """The failure in a line, without advice."""
        return self.message if self.error is None else f"{self.error}: {self.message}"


class EndpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the file that `DD_SLURM_ENDPOINTS` names: a mapping from alias to this."""

    base_url: str
    model: str
    token_file: str | None


def client_files(attempt: AttemptPaths) -> ClientFiles:
    """Where the client of an attempt writes."""
    return ClientFiles(
        prepared=attempt.prepared,
        progress=attempt.progress,
        claim=attempt.claim,
        error=attempt.client_error,
        output=attempt.output,
    )


def client_spec(
    plan: RunPlan,
    shard: Shard,
    endpoints: tuple[ModelEndpoint, ...],
    files: ClientFiles,
    *,
    builder: str,
    base_folder: str | None,
) -> ClientSpec:
    """The start file for one shard. `builder` is the copy of the config; `base_folder` that of the author's files."""
    return ClientSpec(
        work=_work(plan, builder, base_folder),
        endpoints=endpoints,
        shard=shard,
        shard_count=plan.request.array_count,
        total_records=plan.invocation.num_records,
        files=files,
    )


def _work(plan: RunPlan, builder: str, base_folder: str | None) -> ClientWork:
    match plan.client:
        case CommandClient(command=command):
            return CommandWork(command=command, folder=base_folder)
        case DataDesignerClient(source=source):
            return DesignerWork(builder=builder, source=source, base_folder=base_folder, invocation=plan.invocation)
