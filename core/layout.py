"""Every path of a run directory comes from here. Paths are plain strings: `core` never touches them."""

import msgspec


class AttemptPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one attempt at one shard, below `root`."""

    root: str

    @property
    def attempt(self) -> str:
        """Who runs this attempt, and how it ended."""
        return f"{self.root}/attempt.json"

    @property
    def facts_request(self) -> str:
        """What every node is asked."""
        return f"{self.root}/facts-request.json"

    @property
    def facts(self) -> str:
        """One file per node."""
        return f"{self.root}/facts"

    def bound(self, revision: int) -> str:
        """The bound plan; a restart with new ports writes the next revision."""
        return f"{self.root}/bound-{revision:04d}.json"

    @property
    def events(self) -> str:
        """The journal: append only, written before acting."""
        return f"{self.root}/events.jsonl"

    @property
    def samples(self) -> str:
        """What servers and endpoints said about their load."""
        return f"{self.root}/samples.jsonl"

    def endpoint(self, alias: str) -> str:
        """What one endpoint process is told at its start."""
        return f"{self.root}/endpoint-{alias}.json"

    @property
    def client(self) -> str:
        """What the client process is told at its start."""
        return f"{self.root}/client.json"

    @property
    def prepared(self) -> str:
        """Written by the client when it could load its config, or why it could not."""
        return f"{self.root}/prepared.json"

    @property
    def progress(self) -> str:
        """Records done, rewritten as it goes."""
        return f"{self.root}/progress.json"

    @property
    def claim(self) -> str:
        """What the client says it has made; becomes the result when it is true."""
        return f"{self.root}/claim.json"

    @property
    def client_error(self) -> str:
        """Why the client failed, in its own words."""
        return f"{self.root}/client-error.json"

    @property
    def result(self) -> str:
        """What the attempt made: files with digests, rows, schema. Exists only when complete and valid."""
        return f"{self.root}/result.json"

    @property
    def readiness(self) -> str:
        """Which replicas are ready, with a revision that only grows."""
        return f"{self.root}/readiness.json"

    @property
    def logs(self) -> str:
        """One file per process."""
        return f"{self.root}/logs"

    @property
    def tasks(self) -> str:
        """What node workers say about the end of their processes: ``<step>.<launch>.<node>.json``."""
        return f"{self.root}/tasks"

    @property
    def server_token(self) -> str:
        """What endpoints present to servers."""
        return f"{self.root}/server.token"

    @property
    def client_token(self) -> str:
        """What the client presents to endpoints."""
        return f"{self.root}/client.token"

    @property
    def lease(self) -> str:
        """Touched by the controller as long as it lives."""
        return f"{self.root}/lease"

    @property
    def output(self) -> str:
        """Where the client writes its dataset."""
        return f"{self.root}/output"


def task_started(tasks: str, step: str, launch: int, node: str) -> str:
    """What a node worker writes once all its processes are launched."""
    return f"{tasks}/{step}.{launch}.{node}.started.json"


def task_ended(tasks: str, step: str, launch: int, node: str) -> str:
    """What a node worker writes when all its processes are gone."""
    return f"{tasks}/{step}.{launch}.{node}.json"


def fetch_answer(tasks: str, step: str) -> str:
    """How the fetching of a model ended."""
    return f"{tasks}/{step}.fetched.json"


def lane_log(logs: str, step: str, launch: int, lane: str) -> str:
    """Output of one server process."""
    return f"{logs}/{step}.{launch}.{lane}.log"


def worker_log(logs: str, step: str, launch: int, node: str) -> str:
    """What a node worker itself says."""
    return f"{logs}/{step}.{launch}.{node}.worker.log"


def facts_log(logs: str, node: str) -> str:
    """What the worker that gathers the facts of a node says."""
    return f"{logs}/facts.{node}.log"


def facts_step_log(logs: str, number: int) -> str:
    """What the job step says that gathers facts; numbers count the times that facts were asked for in an attempt."""
    return f"{logs}/facts.{number}.srun.log"


def node_facts(facts: str, node: str) -> str:
    """What one node says about itself."""
    return f"{facts}/{node}.json"


class SubmissionPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one submission of a run, below `root`."""

    root: str

    @property
    def intent(self) -> str:
        """What is about to be submitted: created once, before sbatch is asked, by the process that asks."""
        return f"{self.root}/intent.json"

    @property
    def batch(self) -> str:
        """The batch script."""
        return f"{self.root}/batch.sh"

    @property
    def receipt(self) -> str:
        """How it ended: created once; only the job that stands here is ever released."""
        return f"{self.root}/receipt.json"

    @property
    def released(self) -> str:
        """Exists when the job has been let go."""
        return f"{self.root}/released.json"

    @property
    def logs(self) -> str:
        """Where Slurm writes what the job itself says."""
        return f"{self.root}/logs"


class RunPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one run, below `root` (mode 0700, files 0600)."""

    root: str

    @property
    def authored(self) -> str:
        """The run file and profile as they were read."""
        return f"{self.root}/authored.json"

    @property
    def plan(self) -> str:
        """The `RunPlan`; its digest names the run's work."""
        return f"{self.root}/plan.json"

    @property
    def run(self) -> str:
        """When, by whom and with which versions the run was made."""
        return f"{self.root}/run.json"

    @property
    def builder(self) -> str:
        """The Data Designer config, copied so that later edits change nothing."""
        return f"{self.root}/builder.json"

    @property
    def submissions(self) -> str:
        """One folder per submission."""
        return f"{self.root}/submissions"

    def submission(self, number: int) -> SubmissionPaths:
        """One submission; numbers count from 1."""
        return SubmissionPaths(root=f"{self.submissions}/{number}")

    @property
    def absences(self) -> str:
        """Since when tasks have been missing in the queue: what one look cannot know."""
        return f"{self.root}/absences.json"

    def shard(self, shard: int) -> str:
        """Everything of one shard."""
        return f"{self.root}/shards/{shard:05d}"

    def attempts(self, shard: int) -> str:
        """One folder per attempt."""
        return f"{self.shard(shard)}/attempts"

    def attempt(self, shard: int, number: int) -> AttemptPaths:
        """One attempt; numbers count from 1 and only grow."""
        return AttemptPaths(root=f"{self.attempts(shard)}/{number:04d}")

    def winner(self, shard: int) -> str:
        """Created once, by link(2), by the attempt whose result counts."""
        return f"{self.shard(shard)}/winner.json"


def run_paths(workspace: str, run_id: str) -> RunPaths:
    """Where a run lives."""
    return RunPaths(root=f"{workspace}/runs/{run_id}")
