"""What can be wrong with a request, an allocation or a node, as data.

One struct per kind of mistake, holding the facts and no prose. The tag is the public, stable code; the words are
in `core.report`, so that wording can change without touching a single test of the logic.
"""

from typing import TypeAlias

import msgspec

from core.fetch_answer import FetchFailure


class At(msgspec.Struct, frozen=True, kw_only=True):
    """Where a problem is: `source` is a file or an origin of facts, `path` a place in it, `line` counts from 1."""

    source: str
    path: str = ""
    line: int | None = None


# --- the shape of authored files --------------------------------------------------------------------------------


class Unreadable(msgspec.Struct, frozen=True, kw_only=True, tag="unreadable", tag_field="code"):
    """A file cannot be read."""

    at: At
    reason: str


class Unwritable(msgspec.Struct, frozen=True, kw_only=True, tag="unwritable", tag_field="code"):
    """A folder cannot be made, or a file in it cannot be written."""

    at: At
    path: str
    reason: str


class BadSyntax(msgspec.Struct, frozen=True, kw_only=True, tag="bad-syntax", tag_field="code"):
    """The text is not YAML or not JSON."""

    at: At
    reason: str


class ForbiddenSyntax(msgspec.Struct, frozen=True, kw_only=True, tag="forbidden-syntax", tag_field="code"):
    """YAML has it, our files do not: anchors, aliases, merge keys, tags, several documents."""

    at: At
    feature: str


class DuplicateKey(msgspec.Struct, frozen=True, kw_only=True, tag="duplicate-key", tag_field="code"):
    """A key stands twice in one mapping."""

    at: At
    first_line: int | None


class UnknownField(msgspec.Struct, frozen=True, kw_only=True, tag="unknown-field", tag_field="code"):
    """A field that does not exist there."""

    at: At
    allowed: tuple[str, ...]
    suggestion: str | None


class MissingField(msgspec.Struct, frozen=True, kw_only=True, tag="missing-field", tag_field="code"):
    """A field that must be given is not. `reason` is why it must, where that is not plain."""

    at: At
    field: str
    reason: str | None = None


class Malformed(msgspec.Struct, frozen=True, kw_only=True, tag="malformed", tag_field="code"):
    """A value does not have the form of its type."""

    at: At
    found: str
    expected: str


class WrongCombination(msgspec.Struct, frozen=True, kw_only=True, tag="wrong-combination", tag_field="code"):
    """Fields that exclude, need or bound one another."""

    at: At
    found: str
    expected: str


class NotUnique(msgspec.Struct, frozen=True, kw_only=True, tag="not-unique", tag_field="code"):
    """A name is used twice where it must be unique."""

    at: At
    what: str
    value: str
    first_path: str


class UnknownName(msgspec.Struct, frozen=True, kw_only=True, tag="unknown-name", tag_field="code"):
    """A reference to something that nobody declared."""

    at: At
    what: str
    value: str
    known: tuple[str, ...]
    suggestion: str | None


class SecretLiteral(msgspec.Struct, frozen=True, kw_only=True, tag="secret-literal", tag_field="code"):
    """A secret stands in the file in plain text. Its value is not repeated here."""

    at: At
    name: str


class OwnedByPlanner(msgspec.Struct, frozen=True, kw_only=True, tag="owned-by-planner", tag_field="code"):
    """A flag or variable that dd-slurm sets itself."""

    at: At
    name: str
    instead: str | None


# --- placement --------------------------------------------------------------------------------------------------


class GpusNotDivisible(msgspec.Struct, frozen=True, kw_only=True, tag="gpus-not-divisible", tag_field="code"):
    """The GPUs that a replica takes on a node do not divide those of the node (or its quota)."""

    at: At
    gpus_per_node: int
    group: int


class TooFewGpus(msgspec.Struct, frozen=True, kw_only=True, tag="too-few-gpus", tag_field="code"):
    """A replica is larger than the nodes that it may use."""

    at: At
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    nodes: int
    gpus_per_node: int


class NodesNotDivisible(msgspec.Struct, frozen=True, kw_only=True, tag="nodes-not-divisible", tag_field="code"):
    """`nodes_per_replica` does not divide the nodes of the deployment."""

    at: At
    nodes: int
    nodes_per_replica: int


class RanksNotDivisible(msgspec.Struct, frozen=True, kw_only=True, tag="ranks-not-divisible", tag_field="code"):
    """The ranks of a replica cannot be spread evenly over its nodes, or a tensor group would be cut unevenly."""

    at: At
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    nodes_per_replica: int


class SharedNodeOverfull(msgspec.Struct, frozen=True, kw_only=True, tag="shared-node-overfull", tag_field="code"):
    """The quotas of deployments on one shared node overlap or exceed its GPUs."""

    at: At
    node_group: str
    wanted: tuple[str, ...]
    gpus_per_node: int


class BudgetUnfit(msgspec.Struct, frozen=True, kw_only=True, tag="budget-unfit", tag_field="code"):
    """No placement fits the GPU budget."""

    at: At
    gpus: int
    needed: int
    reason: str


class ExecutorUnfit(msgspec.Struct, frozen=True, kw_only=True, tag="executor-unfit", tag_field="code"):
    """The executor asked for cannot run this shape with this vLLM."""

    at: At
    executor: str
    reason: str
    instead: str


class PathNotMounted(msgspec.Struct, frozen=True, kw_only=True, tag="path-not-mounted", tag_field="code"):
    """A host path that no container mount covers."""

    at: At
    path_on_host: str
    mounts: tuple[str, ...]


class TooManyShards(msgspec.Struct, frozen=True, kw_only=True, tag="too-many-shards", tag_field="code"):
    """More array tasks than records: a shard would be empty."""

    at: At
    records: int
    count: int


# --- the allocation and its nodes -------------------------------------------------------------------------------


class NotInAllocation(msgspec.Struct, frozen=True, kw_only=True, tag="not-in-allocation", tag_field="code"):
    """Slurm's variables are missing or empty: this is not the inside of a job."""

    at: At


class CommandFailed(msgspec.Struct, frozen=True, kw_only=True, tag="command-failed", tag_field="code"):
    """A command of the cluster cannot be run or does not answer."""

    at: At
    command: str
    reason: str


class NodeCountMismatch(msgspec.Struct, frozen=True, kw_only=True, tag="node-count-mismatch", tag_field="code"):
    """Slurm granted fewer nodes than the plan was made for, or a list and its count disagree."""

    at: At
    planned: int
    granted: int


class FactsMissing(msgspec.Struct, frozen=True, kw_only=True, tag="facts-missing", tag_field="code"):
    """A node did not report. `advice` is what to do about the reason, where it is known."""

    at: At
    reason: str
    advice: str | None = None


class DevicesTooFew(msgspec.Struct, frozen=True, kw_only=True, tag="devices-too-few", tag_field="code"):
    """A node shows fewer GPUs than planned."""

    at: At
    planned: int
    found: int


class DeviceMaskUnfit(msgspec.Struct, frozen=True, kw_only=True, tag="device-mask-unfit", tag_field="code"):
    """The node names devices in a way that this vLLM cannot read, or a slice is used where a GPU is needed."""

    at: At
    mask: str
    reason: str
    instead: str


class PathUnusable(msgspec.Struct, frozen=True, kw_only=True, tag="path-unusable", tag_field="code"):
    """A path that servers need is missing, unreadable or of the wrong type on a node."""

    at: At
    path: str
    state: str
    wanted: str


class PortsExhausted(msgspec.Struct, frozen=True, kw_only=True, tag="ports-exhausted", tag_field="code"):
    """Not enough free ports on a node inside the range."""

    at: At
    low: int
    high: int
    wanted: int
    taken: int


class NoUsableAddress(msgspec.Struct, frozen=True, kw_only=True, tag="no-usable-address", tag_field="code"):
    """No address of the node can carry traffic between nodes, or the wanted interface is not there."""

    at: At
    interface: str | None
    found: tuple[str, ...]


class LimitTooLow(msgspec.Struct, frozen=True, kw_only=True, tag="limit-too-low", tag_field="code"):
    """A resource of a node is too small: shared memory, open files."""

    at: At
    what: str
    found: int
    needed: int
    unit: str


class VersionUnfit(msgspec.Struct, frozen=True, kw_only=True, tag="version-unfit", tag_field="code"):
    """A version that is not known, differs between plan and node, or is too old for what is planned."""

    at: At
    found: str
    expected: str


# --- where a run is submitted -----------------------------------------------------------------------------------


class CommandMissing(msgspec.Struct, frozen=True, kw_only=True, tag="command-missing", tag_field="code"):
    """A command of Slurm is not where it is looked for: in `folder`, or in the PATH."""

    at: At
    command: str
    folder: str | None


class PyxisMissing(msgspec.Struct, frozen=True, kw_only=True, tag="pyxis-missing", tag_field="code"):
    """Servers shall run in containers of Pyxis, and `srun` does not know its options."""

    at: At


class SecretNotSet(msgspec.Struct, frozen=True, kw_only=True, tag="secret-not-set", tag_field="code"):
    """A variable that the run file refers to is not set where the run is submitted."""

    at: At
    name: str


class HubModelMissing(msgspec.Struct, frozen=True, kw_only=True, tag="hub-model-missing", tag_field="code"):
    """A model could not be fetched from the hub; `detail` is in the words of the tool that tried."""

    at: At
    model: str
    cause: FetchFailure
    detail: str


# --- what a client made -----------------------------------------------------------------------------------------


class ClaimMissing(msgspec.Struct, frozen=True, kw_only=True, tag="claim-missing", tag_field="code"):
    """The client ended without saying what it made."""

    at: At


class FileDiffers(msgspec.Struct, frozen=True, kw_only=True, tag="file-differs", tag_field="code"):
    """A file of a result is not what was claimed: `what` is its existence, place, size, digest or number of rows."""

    at: At
    file: str
    what: str
    claimed: str
    found: str


class RowsUnknown(msgspec.Struct, frozen=True, kw_only=True, tag="rows-unknown", tag_field="code"):
    """No file of a result has rows that can be counted."""

    at: At
    files: tuple[str, ...]


class TooFewRecords(msgspec.Struct, frozen=True, kw_only=True, tag="too-few-records", tag_field="code"):
    """A result has fewer records than were asked for."""

    at: At
    records: int
    wanted: int


class DatasetExists(msgspec.Struct, frozen=True, kw_only=True, tag="dataset-exists", tag_field="code"):
    """A dataset of this name is there already, and nobody said that it should be continued."""

    at: At
    path: str


class NothingToResume(msgspec.Struct, frozen=True, kw_only=True, tag="nothing-to-resume", tag_field="code"):
    """An earlier dataset must be continued, but there is none."""

    at: At
    path: str


class ConfigUnfit(msgspec.Struct, frozen=True, kw_only=True, tag="config-unfit", tag_field="code"):
    """Data Designer does not accept its config; `reason` is in its words."""

    at: At
    reason: str


# --- what becomes of a run --------------------------------------------------------------------------------------


class SubmissionUnclear(msgspec.Struct, frozen=True, kw_only=True, tag="submission-unclear", tag_field="code"):
    """Whether Slurm has the job of an earlier submission is not known."""

    at: At
    number: int


class QueueUnreadable(msgspec.Struct, frozen=True, kw_only=True, tag="queue-unreadable", tag_field="code"):
    """The queue could not be read, so what runs is not known."""

    at: At
    reason: str


class PlanChanged(msgspec.Struct, frozen=True, kw_only=True, tag="plan-changed", tag_field="code"):
    """`plan.json` is not what was submitted."""

    at: At
    number: int


class ShardNotRetried(msgspec.Struct, frozen=True, kw_only=True, tag="shard-not-retried", tag_field="code"):
    """A shard that was asked for cannot be given to a new job."""

    at: At
    shard: int
    reason: str


class NothingToRetry(msgspec.Struct, frozen=True, kw_only=True, tag="nothing-to-retry", tag_field="code"):
    """No shard needs a new job, or those that do were `passed` over."""

    at: At
    passed: tuple[str, ...]


class ShardsMissing(msgspec.Struct, frozen=True, kw_only=True, tag="shards-missing", tag_field="code"):
    """Shards without a winner."""

    at: At
    shards: tuple[int, ...]
    count: int


class ColumnsDiffer(msgspec.Struct, frozen=True, kw_only=True, tag="columns-differ", tag_field="code"):
    """Results of shards do not fit into one table."""

    at: At
    shard: int
    reason: str


class RecordCountDiffers(msgspec.Struct, frozen=True, kw_only=True, tag="record-count-differs", tag_field="code"):
    """The run file demands an exact number of records."""

    at: At
    records: int
    wanted: int


class DestinationTaken(msgspec.Struct, frozen=True, kw_only=True, tag="destination-taken", tag_field="code"):
    """The folder for the merged dataset cannot be used."""

    at: At
    path: str
    reason: str


Problem: TypeAlias = (
    Unreadable
    | Unwritable
    | BadSyntax
    | ForbiddenSyntax
    | DuplicateKey
    | UnknownField
    | MissingField
    | Malformed
    | WrongCombination
    | NotUnique
    | UnknownName
    | SecretLiteral
    | OwnedByPlanner
    | GpusNotDivisible
    | TooFewGpus
    | NodesNotDivisible
    | RanksNotDivisible
    | SharedNodeOverfull
    | BudgetUnfit
    | ExecutorUnfit
    | PathNotMounted
    | TooManyShards
    | NotInAllocation
    | CommandFailed
    | NodeCountMismatch
    | FactsMissing
    | DevicesTooFew
    | DeviceMaskUnfit
    | PathUnusable
    | PortsExhausted
    | NoUsableAddress
    | LimitTooLow
    | VersionUnfit
    | CommandMissing
    | PyxisMissing
    | SecretNotSet
    | HubModelMissing
    | ClaimMissing
    | FileDiffers
    | RowsUnknown
    | TooFewRecords
    | DatasetExists
    | NothingToResume
    | ConfigUnfit
    | SubmissionUnclear
    | QueueUnreadable
    | PlanChanged
    | ShardNotRetried
    | NothingToRetry
    | ShardsMissing
    | ColumnsDiffer
    | RecordCountDiffers
    | DestinationTaken
)
Problems: TypeAlias = tuple[Problem, ...]
