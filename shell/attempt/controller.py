"""One attempt from its beginning to its end: facts, bind, supervision, result."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.codec import compact_json
from core.layout import AttemptPaths, RunPaths
from core.outcome import Outcome, problems_of
from core.plan.advice import advice, advice_words
from core.plan.bind import bind
from core.plan.bound import Attempt, BoundPlan
from core.plan.model import RunPlan
from core.plan.rounds import facts_rounds
from core.plan.server_args import SERVER_TOKEN
from core.plan.shards import Shard, shard_of
from core.problem import At, Problems, UnknownName
from core.report import ProblemReport, as_text, counted, report
from core.resume import Mode
from core.supervise.events import StopAsked, TimeLimitNear
from core.supervise.rules import attempt_state, exit_code, supervise_plan
from core.supervise.story import verdict_words
from core.supervise.verdict import Completed, OutOfTime, Verdict
from core.units import NodeName, StepName
from shell.attempt.attempts import AttemptRecord, new_attempt, new_token, write_record
from shell.attempt.deaths import Deaths
from shell.attempt.endpoint_ports import bind_and_hold
from shell.attempt.fetching import News, fetch_models
from shell.attempt.gathering import gather_facts
from shell.attempt.interpreter import Interpreter, monotonic_ms
from shell.attempt.results import declare_winner
from shell.attempt.resume import go_on_in_another_job, take_over
from shell.attempt.start_files import write_start_files
from shell.attempt.world import AttemptWorld
from shell.launch.jobs import Job, local_job, slurm_job
from shell.launch.launcher import Launcher
from shell.launch.processes import Reaper
from shell.store import append_line, open_journal, write_atomic
from shell.submission.runs import RunRecord, read_run
from shell.worker.lease import Lease

EX_UNAVAILABLE, EX_SOFTWARE, EX_CONFIG = 69, 70, 78


class _Exits:
    """Where the launcher's news goes: to one queue at first, to the world once there is one."""

    def __init__(self) -> None:
        self.early: News = SimpleQueue()
        """Before there is a world: None when facts are gathered, the number of a signal to stop, a step that ended."""
        self.world: AttemptWorld | None = None

    def on_facts_exit(self, code: int) -> None:
        if self.world is None:
            self.early.put(None)
        else:
            self.world.on_facts_exit(code)

    def on_task_exit(self, step: StepName, launch: int, node: NodeName, code: int) -> None:
        if self.world is not None:
            self.world.on_task_exit(step, launch, node, code)

    def on_step_exit(self, step: StepName, launch: int, code: int) -> None:
        if self.world is None:
            self.early.put(step)
        else:
            self.world.on_step_exit(step, launch, code)


def run_attempt(root: str, shard: int, scratch: str, local: bool) -> int:
    """Run the next attempt at a shard; the exit code. `local` plays the nodes here, with their disks in `scratch`."""
    started = time.time_ns() // 1_000_000
    clock = time.monotonic()
    try:
        record, plan = read_run(root)
    except (OSError, msgspec.MsgspecError) as error:
        print(f"{root}: this is not the folder of a run: {error}", file=sys.stderr)
        return EX_CONFIG
    job: Outcome[Job] = Success(local_job(record, plan, scratch)) if local else slurm_job(root, record, plan)
    problems = (*_shard_problems(plan, shard), *problems_of(job))
    if problems:
        print("\n".join(map(as_text, problems)), file=sys.stderr)
        return EX_CONFIG
    run, place = RunPaths(root=root), job.unwrap()
    number, paths = new_attempt(run, shard)
    attempt = AttemptRecord(
        run_id=record.run_id,
        shard=shard,
        number=number,
        job_id=place.job_id,
        nodes=place.hosts,
        started_unix_ms=started,
    )
    write_record(paths, attempt)
    story: list[str] = []

    def say(text: str) -> None:
        story.append(f"{time.monotonic() - clock:7.1f} s  {text}")
        with contextlib.suppress(OSError):  # nobody reads it any more, or the disk of the job's log is full
            print(story[-1], flush=True)

    say(f"shard {shard}, attempt {number}, on {place.words}: {paths.root}")
    work = _Work(run, record, plan, shard_of(plan.invocation.num_records, plan.request.array_count, shard), place)
    finished = work.run(number, paths, say)
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


def _shard_problems(plan: RunPlan, shard: int) -> Problems:
    if shard < plan.request.array_count:
        return ()
    known = tuple(str(index) for index in range(plan.request.array_count))
    return (UnknownName(at=At(source="--shard"), what="shard", value=str(shard), known=known, suggestion=None),)


class _Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended."""

    state: str
    exit_code: int
    cause: bytes


class _Work:
    """The stages of one attempt."""

    def __init__(self, run: RunPaths, record: RunRecord, plan: RunPlan, shard: Shard, job: Job) -> None:
        self._run, self._record, self._plan, self._shard, self._job = run, record, plan, shard, job
        self._deaths: Deaths

    def run(self, number: int, paths: AttemptPaths, say: Callable[[str], None]) -> _Ended:
        """All stages."""
        with ExitStack() as leases:
            return self._stages(number, paths, leases, say)

    def _stages(self, number: int, paths: AttemptPaths, leases: ExitStack, say: Callable[[str], None]) -> _Ended:
        token = new_token(paths.server_token)
        new_token(paths.client_token)
        resume = self._take_over(number, say)
        exits, reaper = _Exits(), Reaper()
        _on_signals(exits.early.put)
        launcher = self._job.launcher(paths, reaper, exits, {**os.environ, SERVER_TOKEN: token})
        job_id = self._job.job_id
        attempt = Attempt(run_id=self._record.run_id, shard=self._shard.index, number=number, job_id=job_id)
        bound = self._bind(paths, launcher, exits, attempt, leases, say)
        if isinstance(bound, int):
            return _stopped(bound, say)
        if not is_successful(bound):
            return _refused(bound.failure(), say)
        write_atomic(paths.bound(1), compact_json(bound.unwrap()))
        lease = Lease(paths.lease)
        try:
            missing = fetch_models(bound.unwrap(), paths, launcher, exits.early, say)
            if missing:
                return _refused(missing, say, EX_UNAVAILABLE) if isinstance(missing, tuple) else _stopped(missing, say)
            verdict = self._supervise(paths, bound.unwrap(), exits, reaper, launcher, token, resume, say)
        finally:
            lease.withdraw()
        if isinstance(verdict, Completed) and not declare_winner(self._run, self._shard.index, number):
            say("another attempt has won this shard already; this result is kept beside it")
        if isinstance(verdict, OutOfTime) and self._job.in_slurm:
            said = go_on_in_another_job(self._run, self._plan, self._shard.index, number, job_id)
            say(said or "on_time_limit.resume is manual: no further job is submitted")
        say(f"{attempt_state(verdict)}: {verdict_words(verdict)}")
        cause = self._deaths.cause_json(verdict)
        return _Ended(state=attempt_state(verdict), exit_code=exit_code(verdict), cause=cause)

    def _take_over(self, number: int, say: Callable[[str], None]) -> Mode | None:
        taken = take_over(self._run, self._plan, self._shard.index, number)
        if taken is None:
            return None
        say(f"goes on with what attempt {taken.number} has made")
        return taken.mode

    def _bind(
        self,
        paths: AttemptPaths,
        launcher: Launcher,
        exits: _Exits,
        attempt: Attempt,
        leases: ExitStack,
        say: Callable[[str], None],
    ) -> Outcome[BoundPlan] | int:
        rehearsal, hosts = self._record.rehearsal, self._job.hosts
        if len(hosts) < self._plan.request.nodes:
            return bind(self._plan, hosts, (), attempt, self._record.bundle, rehearsal)
        rounds = facts_rounds(self._plan, rehearsal, paths.facts)
        gathered = gather_facts(rounds, hosts, paths, launcher, exits.early, say)
        if isinstance(gathered, int):
            return gathered
        facts, silent = gathered
        bound = bind_and_hold(
            lambda seen: bind(self._plan, hosts, seen, attempt, self._record.bundle, rehearsal, silent), facts, leases
        )
        for said in advice(self._plan, facts) if is_successful(bound) else ():
            say(f"warning: {advice_words(said)}")
        return bound

    def _supervise(
        self,
        paths: AttemptPaths,
        bound: BoundPlan,
        exits: _Exits,
        reaper: Reaper,
        launcher: Launcher,
        token: str,
        resume: Mode | None,
        say: Callable[[str], None],
    ) -> Verdict:
        write_start_files(self._record, self._plan, self._shard, self._run.builder, paths, bound, resume)
        journal = open_journal(paths.events)
        rules = supervise_plan(self._plan, bound, self._job.probe_every_ms)
        interpreter = Interpreter(rules, lambda line: append_line(journal, line))
        world = AttemptWorld(self._plan, bound, rules, self._shard, paths, token, interpreter, reaper, launcher, say)
        self._deaths = world.deaths
        exits.world = world

        def asked(number: int) -> None:
            if number == signal.SIGUSR1:
                interpreter.put(TimeLimitNear(at=monotonic_ms()))
            else:
                name = signal.Signals(number).name
                interpreter.put(StopAsked(at=monotonic_ms(), reason=name, exit_code=128 + number))

        _on_signals(asked)
        while not exits.early.empty():
            said = exits.early.get()
            if isinstance(said, int):
                asked(said)
        try:
            return interpreter.run(world)
        finally:
            world.close()
            os.close(journal)


def _on_signals(act: Callable[[int], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, lambda got, _: act(got))


def _stopped(number: int, say: Callable[[str], None]) -> _Ended:
    say("stopped before any server was started")
    return _Ended(state="INTERRUPTED", exit_code=128 + number, cause=b"null")


def _refused(problems: Problems, say: Callable[[str], None], code: int = EX_CONFIG) -> _Ended:
    """All problems at once; no server was started."""
    for problem in problems:
        say(as_text(problem))
    say(f"FAILED: {counted(len(problems), 'problem')}, nothing was started")
    reports: tuple[ProblemReport, ...] = tuple(map(report, problems))
    return _Ended(state="FAILED", exit_code=code, cause=msgspec.json.encode({"kind": "refused", "problems": reports}))
