"""One attempt from its beginning to its end: facts, bind, supervision, result."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

import msgspec
from returns.pipeline import is_successful

from core.client_spec import ModelEndpoint, client_files, client_spec
from core.codec import canonical_json, compact_json
from core.endpoint_spec import EndpointSpec
from core.layout import AttemptPaths, RunPaths
from core.outcome import Outcome
from core.plan.bind import bind
from core.plan.bound import Attempt, BoundPlan
from core.plan.judge import facts_request
from core.plan.model import RunPlan
from core.plan.server_args import SERVER_TOKEN
from core.plan.shards import Shard, shard_of
from core.plan.steps import url_of
from core.plan.topology import gpus_on_slots
from core.problem import At, Problems, UnknownName
from core.report import ProblemReport, as_text, report
from core.supervise.events import StopAsked, TimeLimitNear
from core.supervise.rules import attempt_state, exit_code, supervise_plan
from core.supervise.story import verdict_words
from core.supervise.verdict import Completed, Verdict
from core.units import NodeName, StepName
from shell.attempt_world import AttemptWorld, read_facts
from shell.attempts import AttemptRecord, new_attempt, new_token, write_record
from shell.interpreter import Interpreter, monotonic_ms
from shell.launch_local import LocalJob, LocalLauncher, local_nodes
from shell.processes import Reaper
from shell.results import declare_winner
from shell.runs import RunRecord, read_run
from shell.store import append_line, open_journal, write_atomic

EX_SOFTWARE, EX_CONFIG = 70, 78
FACTS_TIMEOUT_S = 120.0
LOCAL_PROBE_MS = 100


class _Exits:
    """Where the launcher's news goes: to the facts queue first, to the world once there is one."""

    def __init__(self) -> None:
        self.facts: SimpleQueue[int] = SimpleQueue()
        self.world: AttemptWorld | None = None

    def on_facts_exit(self, code: int) -> None:
        if self.world is None:
            self.facts.put(code)
        else:
            self.world.on_facts_exit(code)

    def on_task_exit(self, step: StepName, launch: int, node: NodeName, code: int) -> None:
        if self.world is not None:
            self.world.on_task_exit(step, launch, node, code)

    def on_step_exit(self, step: StepName, launch: int, code: int) -> None:
        if self.world is not None:
            self.world.on_step_exit(step, launch, code)


def run_attempt(root: str, shard: int, scratch: str) -> int:
    """Run the next attempt at a shard; the exit code. `scratch` is for what simulated nodes keep on their disks."""
    started = time.time_ns() // 1_000_000
    clock = time.monotonic()
    try:
        record, plan = read_run(root)
    except (OSError, msgspec.MsgspecError) as error:
        print(f"{root}: this is not the folder of a run: {error}", file=sys.stderr)
        return EX_CONFIG
    if shard >= plan.request.array_count:
        known = tuple(str(index) for index in range(plan.request.array_count))
        wrong = UnknownName(at=At(source="--shard"), what="shard", value=str(shard), known=known, suggestion=None)
        print(as_text(wrong), file=sys.stderr)
        return EX_CONFIG
    run = RunPaths(root=root)
    number, paths = new_attempt(run, shard)
    job_id = os.environ.get("SLURM_JOB_ID") or str(os.getpid())
    hosts = tuple(NodeName(f"sim{index + 1:02d}") for index in range(plan.request.nodes))
    attempt = AttemptRecord(
        run_id=record.run_id, shard=shard, number=number, job_id=job_id, nodes=hosts, started_unix_ms=started
    )
    write_record(paths, attempt)
    story: list[str] = []

    def say(text: str) -> None:
        story.append(f"{time.monotonic() - clock:7.1f} s  {text}")
        print(story[-1], flush=True)

    say(f"shard {shard}, attempt {number}, on {len(hosts)} simulated nodes: {paths.root}")
    work = _Work(run, record, plan, shard_of(plan.invocation.num_records, plan.request.array_count, shard), scratch)
    finished = work.run(number, paths, job_id, hosts, say)
    ended = msgspec.structs.replace(
        attempt,
        ended_unix_ms=time.time_ns() // 1_000_000,
        state=finished.state,
        exit_code=finished.exit_code,
        cause=msgspec.Raw(finished.cause),
        story=tuple(story),
    )
    write_record(paths, ended)
    return finished.exit_code


class _Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended."""

    state: str
    exit_code: int
    cause: bytes


class _Work:
    """The stages of one attempt."""

    def __init__(self, run: RunPaths, record: RunRecord, plan: RunPlan, shard: Shard, scratch: str) -> None:
        self._run, self._record, self._plan, self._shard, self._scratch = run, record, plan, shard, scratch

    def run(
        self, number: int, paths: AttemptPaths, job_id: str, hosts: Sequence[NodeName], say: Callable[[str], None]
    ) -> _Ended:
        """All stages."""
        stop: SimpleQueue[int] = SimpleQueue()
        _on_signals(stop.put)
        token = new_token(f"{paths.root}/server.token")
        new_token(f"{paths.root}/client.token")
        exits, reaper = _Exits(), Reaper()
        gpus = gpus_on_slots([d.placement for d in self._plan.deployments])
        job = LocalJob(
            job_id,
            local_nodes(hosts, gpus, self._scratch),
            tasks=paths.tasks,
            logs=paths.logs,
            bundle=self._record.bundle,
        )
        launcher = LocalLauncher(job, reaper, exits, {**os.environ, SERVER_TOKEN: token})
        attempt = Attempt(run_id=self._record.run_id, shard=self._shard.index, number=number, job_id=job_id)
        bound = self._bind(paths, launcher, exits, hosts, attempt, stop)
        if isinstance(bound, int):
            say("stopped before anything was started")
            return _Ended(state="INTERRUPTED", exit_code=bound, cause=b"null")
        if not is_successful(bound):
            return _refused(bound.failure(), say)
        verdict = self._supervise(paths, bound.unwrap(), exits, reaper, launcher, token, stop, say)
        if isinstance(verdict, Completed) and not declare_winner(self._run, self._shard.index, number):
            say("another attempt has won this shard already; this result is kept beside it")
        say(f"{attempt_state(verdict)}: {verdict_words(verdict)}")
        return _Ended(state=attempt_state(verdict), exit_code=exit_code(verdict), cause=msgspec.json.encode(verdict))

    def _bind(
        self,
        paths: AttemptPaths,
        launcher: LocalLauncher,
        exits: _Exits,
        hosts: Sequence[NodeName],
        attempt: Attempt,
        stop: SimpleQueue[int],
    ) -> Outcome[BoundPlan] | int:
        rehearsal = self._record.rehearsal
        request = facts_request(self._plan, rehearsal, paths.facts)
        write_atomic(paths.facts_request, canonical_json(request))
        launcher.facts(paths.facts_request, hosts)
        stopped = _wait(exits.facts, stop)
        if stopped is not None:
            launcher.stop_facts()
            exits.facts.get(timeout=FACTS_TIMEOUT_S)
            return 128 + stopped
        facts = read_facts(paths.facts, hosts)
        return bind(self._plan, hosts, facts, attempt, self._record.bundle, rehearsal)

    def _supervise(
        self,
        paths: AttemptPaths,
        bound: BoundPlan,
        exits: _Exits,
        reaper: Reaper,
        launcher: LocalLauncher,
        token: str,
        stop: SimpleQueue[int],
        say: Callable[[str], None],
    ) -> Verdict:
        write_atomic(paths.bound(1), compact_json(bound))
        self._write_start_files(paths, bound)
        journal = open_journal(paths.events)
        rules = supervise_plan(self._plan, bound, LOCAL_PROBE_MS)
        interpreter = Interpreter(rules, lambda line: append_line(journal, line))
        world = AttemptWorld(self._plan, bound, rules, self._shard, paths, token, interpreter, reaper, launcher, say)
        exits.world = world

        def asked(number: int) -> None:
            if number == signal.SIGUSR1:
                interpreter.put(TimeLimitNear(at=monotonic_ms()))
            else:
                name = signal.Signals(number).name
                interpreter.put(StopAsked(at=monotonic_ms(), reason=name, exit_code=128 + number))

        _on_signals(asked)
        while not stop.empty():
            asked(stop.get())
        try:
            return interpreter.run(world)
        finally:
            world.close()
            os.close(journal)

    def _write_start_files(self, paths: AttemptPaths, bound: BoundPlan) -> None:
        client_token, server_token = f"{paths.root}/client.token", f"{paths.root}/server.token"
        by_alias = {deployment.alias: deployment for deployment in self._plan.deployments}
        for endpoint in bound.endpoints:
            limits = by_alias[endpoint.alias].server.backpressure
            spec = EndpointSpec(
                alias=endpoint.alias,
                served_name=by_alias[endpoint.alias].served_name,
                address=endpoint.address,
                port=endpoint.port,
                client_token_file=client_token,
                server_token_file=server_token,
                max_waiting=limits.max_waiting_requests if limits else None,
                retry_after_seconds=(limits.retry_after_seconds if limits else None) or 1,
            )
            write_atomic(paths.endpoint(endpoint.alias), canonical_json(spec))
        endpoints = tuple(
            ModelEndpoint(
                alias=endpoint.alias,
                base_url=f"{url_of(endpoint.address, endpoint.port)}/v1",
                model=by_alias[endpoint.alias].served_name,
                token_file=client_token,
            )
            for endpoint in bound.endpoints
        )
        spec_of_client = client_spec(
            self._plan,
            self._shard,
            endpoints,
            client_files(paths),
            builder=self._run.builder,
            base_folder=self._record.base_folder,
        )
        write_atomic(paths.client, canonical_json(spec_of_client))


def _on_signals(act: Callable[[int], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda got, _: act(got))


def _wait(facts: SimpleQueue[int], stop: SimpleQueue[int]) -> int | None:
    """Until all nodes have reported, or somebody asks to stop, or time is over: then what is there must do."""
    deadline = time.monotonic() + FACTS_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            facts.get(timeout=0.1)
        except Empty:
            if not stop.empty():
                return stop.get()
            continue
        return None
    return None


def _refused(problems: Problems, say: Callable[[str], None]) -> _Ended:
    """Every node's problems at once; nothing was started."""
    for problem in problems:
        say(as_text(problem))
    say(f"FAILED: {len(problems)} problems with the allocation, nothing was started")
    reports: tuple[ProblemReport, ...] = tuple(map(report, problems))
    return _Ended(
        state="FAILED", exit_code=EX_CONFIG, cause=msgspec.json.encode({"kind": "refused", "problems": reports})
    )
