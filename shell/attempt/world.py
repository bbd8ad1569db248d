"""What the supervisor's effects mean in one attempt: steps of a launcher, a client, endpoints, probes, files."""

import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import assert_never

import msgspec
from returns.pipeline import is_successful

from core.client_spec import Preparation, Refused
from core.codec import canonical_json, compact_json
from core.endpoint_spec import Listening, LoadLine, SpokenLine, UseBackends
from core.layout import AttemptPaths, node_facts
from core.plan.bound import BoundPlan
from core.plan.facts import FactsRequest, NodeFacts
from core.plan.model import RunPlan
from core.plan.rebind import rebind
from core.plan.shards import Shard
from core.plan.steps import Probe, Step, probes_of, steps_of
from core.plan.task import first_end
from core.report import as_text, in_a_line
from core.supervise import effects as todo
from core.supervise import events as happened
from core.supervise.plan import SupervisePlan
from core.supervise.state import State
from core.supervise.story import tell
from core.units import Alias, MonotonicMs, NodeName, StepName
from shell.attempt.client_process import client_environment
from shell.attempt.deaths import Deaths
from shell.attempt.interpreter import Interpreter, monotonic_ms
from shell.attempt.loads import Loads, targets_of
from shell.attempt.probes import Foreign, Serves, probe
from shell.attempt.results import check_result
from shell.launch.launcher import Launcher
from shell.launch.processes import Child, Reaper
from shell.launch.step_ends import log_lines, read_ends
from shell.store import make_folder, write_atomic

PREPARED_POLL_S = 0.05
PROBE_THREADS = 16


class AttemptWorld:
    """Carries out effects. Every method runs in the interpreter's thread, except where it says otherwise."""

    def __init__(
        self,
        plan: RunPlan,
        bound: BoundPlan,
        rules: SupervisePlan,
        shard: Shard,
        paths: AttemptPaths,
        token: str,
        interpreter: Interpreter,
        reaper: Reaper,
        launcher: Launcher,
        say: Callable[[str], None],
    ) -> None:
        self._plan, self._rules, self._shard, self._paths, self._token = plan, rules, shard, paths, token
        self._interpreter, self._reaper, self._launcher, self._say = interpreter, reaper, launcher, say
        self._steps: dict[StepName, Step] = {step.name: step for step in steps_of(bound)}
        self._bound = bound
        self._revision = 1
        self._client: Child | None = None
        self._endpoints: dict[tuple[Alias, int], Child] = {}
        self._rebinds: list[todo.Rebind] = []
        self._probing: set[tuple[StepName, int]] = set()
        self._pool = ThreadPoolExecutor(PROBE_THREADS, thread_name_prefix="probe")
        self._loads = Loads(paths.samples, token, self._on_load, interpreter.put, self._in_background)
        self.deaths = Deaths(paths)

    def observe(self, before: State, after: State, at: MonotonicMs) -> None:
        """Tell people what changed."""
        for sentence in tell(self._rules, before, after, at):
            self._say(sentence)

    def carry_out(self, effect: todo.Effect) -> None:
        """Do it. Nothing here waits for the world to answer."""
        match effect:
            case todo.StartClient():
                self._start_client()
            case todo.ReleaseClient():
                if self._client is not None:
                    self._client.write(b"go\n")
            case todo.SignalClient(signal=name):
                if self._client is not None:
                    self._client.signal(signal.Signals[f"SIG{name}"])
            case todo.CheckResult():
                self._in_background(self._check)
            case todo.StartServer(step=step, launch=launch):
                self._launcher.serve(self._steps[step], launch, self._bound, self._paths.bound(self._revision))
            case todo.SignalServer(step=step, launch=launch, signal=name):
                self._launcher.signal(step, launch, name)
            case todo.ProbeServer(step=step, launch=launch):
                self._probe(step, launch)
            case todo.Rebind():
                self._rebinds.append(effect)
                if len(self._rebinds) == 1:
                    self._ask_for_facts(effect)
            case todo.Explain():
                self._explain(effect)
            case todo.StartEndpoint(alias=alias, launch=launch):
                self._start_endpoint(alias, launch)
            case todo.SignalEndpoint(alias=alias, launch=launch, signal=name):
                self._endpoints[alias, launch].signal(signal.Signals[f"SIG{name}"])
            case todo.Route(alias=alias, backends=backends):
                self._route(alias, backends)
            case todo.PublishReadiness():
                write_atomic(self._paths.readiness, canonical_json(effect))
            case todo.WakeAt():
                raise AssertionError("the interpreter keeps the timer")
            case _:
                assert_never(effect)

    # --- the client ---------------------------------------------------------------------------------------------

    def _start_client(self) -> None:
        argv = (sys.executable, "-P", "-m", "shell.client", "--spec", self._paths.client)
        log = f"{self._paths.logs}/client.log"
        environ = client_environment(self._bound.bundle)
        self._client = self._reaper.spawn(argv, environ, log, self._client_ended, stdin="pipe")
        client = self._client
        self._in_background(lambda: self._await_prepared(client))

    def _client_ended(self, code: int) -> None:
        """In the reaper's thread. What the client said last is heard before its end."""
        self._hear_prepared()
        self._interpreter.put(happened.ClientExited(at=monotonic_ms(), code=code))

    def _await_prepared(self, client: Child) -> None:
        """In a thread of its own: until the client has said whether it can work."""
        while not client.gone and not self._hear_prepared():
            time.sleep(PREPARED_POLL_S)

    def _hear_prepared(self) -> bool:
        try:
            with open(self._paths.prepared, "rb") as file:
                said = msgspec.json.decode(file.read(), type=Preparation)
        except OSError:
            return False
        if isinstance(said, Refused):
            reasons = tuple(map(in_a_line, said.problems))
            self._interpreter.put(happened.ClientRefuses(at=monotonic_ms(), reasons=reasons))
        else:
            self._interpreter.put(happened.ClientIsPrepared(at=monotonic_ms()))
        return True

    def _check(self) -> None:
        """In a thread of its own: large files take time."""
        try:
            reasons = check_result(self._paths, self._shard)
        except OSError as error:
            reasons = (f"its result cannot be kept: {error}",)
        self._interpreter.put(happened.ResultChecked(at=monotonic_ms(), reasons=reasons))

    # --- servers ------------------------------------------------------------------------------------------------

    def _probe(self, step: StepName, launch: int) -> None:
        if (step, launch) in self._probing:
            return
        self._probing.add((step, launch))
        targets = probes_of(self._bound, self._steps[step])
        self._in_background(lambda: self._ask(step, launch, targets))

    def _ask(self, step: StepName, launch: int, targets: Sequence[Probe]) -> None:
        """In a thread of its own."""
        answers = [probe(target, self._token) for target in targets]
        self._probing.discard((step, launch))
        foreign = [answer for answer in answers if isinstance(answer, Foreign)]
        at = monotonic_ms()
        if foreign:
            found, wanted = foreign[0].found, foreign[0].wanted
            self._interpreter.put(happened.ServerForeign(at=at, step=step, launch=launch, found=found, wanted=wanted))
        elif all(isinstance(answer, Serves) for answer in answers):
            self._interpreter.put(happened.ServerReady(at=at, step=step, launch=launch))

    def on_task_exit(self, step: StepName, launch: int, node: NodeName, code: int) -> None:
        """In the reaper's thread."""
        first = first_end(read_ends(self._paths.tasks, step, launch, [node]))
        at = monotonic_ms()
        self._interpreter.put(happened.TaskExited(at=at, step=step, launch=launch, node=node, code=code, first=first))

    def on_step_exit(self, step: StepName, launch: int, code: int) -> None:
        """In the reaper's thread."""
        nodes = [self._bound.nodes[slot].name for slot in self._steps[step].slots]
        first = first_end(read_ends(self._paths.tasks, step, launch, nodes))
        at = monotonic_ms()
        self._interpreter.put(happened.ServerExited(at=at, step=step, launch=launch, code=code, first=first))

    def _explain(self, asked: todo.Explain) -> None:
        for sentence in log_lines(self._paths.logs, asked.step, asked.launch, asked.lane):
            self._say(f"  {sentence}")
        nodes = [self._bound.nodes[slot].name for slot in self._steps[asked.step].slots]
        versions = [facts.vllm_version for facts in read_facts(self._paths.facts, nodes[:1])]
        for sentence in self.deaths.explain(asked, nodes, next(iter(versions), None)):
            self._say(f"  {sentence}")

    # --- new ports ----------------------------------------------------------------------------------------------

    def _ask_for_facts(self, asked: todo.Rebind) -> None:
        folder = f"{self._paths.facts}/{asked.step}.{asked.launch}"
        make_folder(folder)
        request = FactsRequest(paths=(), executables=(), ask_vllm_version=False, output_dir=folder)
        write_atomic(f"{folder}.request.json", canonical_json(request))
        step = self._steps[asked.step]
        image = next(d.server.image for d in self._plan.deployments if d.alias == step.alias)
        nodes = [self._bound.nodes[slot].name for slot in step.slots]
        self._launcher.facts(f"{folder}.request.json", nodes, image)

    def on_facts_exit(self, code: int) -> None:
        """In the reaper's thread: the owning thread goes on with it."""
        self._interpreter.put(self._rebind)

    def _rebind(self) -> None:
        asked = self._rebinds.pop(0)
        step = self._steps[asked.step]
        folder = f"{self._paths.facts}/{asked.step}.{asked.launch}"
        facts = read_facts(folder, [self._bound.nodes[slot].name for slot in step.slots])
        outcome = rebind(self._plan, self._bound, step, asked.launch, facts)
        at = monotonic_ms()
        if is_successful(outcome):
            self._bound = outcome.unwrap()
            self._revision += 1
            write_atomic(self._paths.bound(self._revision), compact_json(self._bound))
            self._interpreter.put(happened.Rebound(at=at, step=asked.step, launch=asked.launch))
        else:
            reasons = tuple(map(as_text, outcome.failure()))
            self._interpreter.put(happened.RebindRefused(at=at, step=asked.step, launch=asked.launch, reasons=reasons))
        if self._rebinds:
            self._ask_for_facts(self._rebinds[0])

    # --- endpoints ----------------------------------------------------------------------------------------------

    def _start_endpoint(self, alias: Alias, launch: int) -> None:
        argv = (sys.executable, "-P", "-m", "shell.endpoint", "--config", self._paths.endpoint(alias))
        log = f"{self._paths.logs}/endpoint-{alias}.{launch}.log"
        self._endpoints[alias, launch] = self._reaper.spawn(
            argv,
            client_environment(self._bound.bundle),
            log,
            on_exit=lambda code: self._interpreter.put(
                happened.EndpointExited(at=monotonic_ms(), alias=alias, launch=launch, code=code)
            ),
            on_line=lambda line: self._endpoint_says(alias, launch, line),
            stdin="pipe",
        )

    def _endpoint_says(self, alias: Alias, launch: int, line: str) -> None:
        """In the reaper's thread."""
        said = msgspec.json.decode(line, type=SpokenLine)
        if isinstance(said, Listening):
            self._interpreter.put(happened.EndpointListening(at=monotonic_ms(), alias=alias, launch=launch))

    def _route(self, alias: Alias, backends: Sequence[todo.Backend]) -> None:
        targets = [t for b in backends for t in targets_of(self._bound, self._steps[b.step], b.launch)]
        line = compact_json(UseBackends(backends=tuple(target.address for target in targets))) + b"\n"
        for (name, _), endpoint in self._endpoints.items():
            if name == alias:
                endpoint.write(line)
        self._loads.watch(alias, targets)

    def _on_load(self, alias: Alias, line: LoadLine) -> None:
        """In the sampler's thread."""
        self._interpreter.put(lambda: self._tell_load(alias, compact_json(line) + b"\n"))

    def _tell_load(self, alias: Alias, line: bytes) -> None:
        for (name, _), endpoint in self._endpoints.items():
            if name == alias:
                endpoint.offer(line)

    def _in_background(self, work: Callable[[], None]) -> None:
        """Work that waits for the world. A bug in it ends the controller as a bug in the loop would, not in silence."""
        self._pool.submit(work).add_done_callback(self._raise_in_loop)

    def _raise_in_loop(self, done: "Future[None]") -> None:
        if not done.cancelled() and done.exception() is not None:
            self._interpreter.put(done.result)

    def close(self) -> None:
        """Let the threads go."""
        self._loads.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def read_facts(folder: str, nodes: Sequence[NodeName]) -> tuple[NodeFacts, ...]:
    """The reports that are there and whole."""
    found: list[NodeFacts] = []
    for name in nodes:
        try:
            with open(node_facts(folder, name), "rb") as file:
                found.append(msgspec.json.decode(file.read(), type=NodeFacts))
        except (OSError, msgspec.MsgspecError):
            continue
    return tuple(found)
