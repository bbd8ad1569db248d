"""Running the server processes of one step on this node, from the plan file that every node reads.

The first process that ends, with whatever code, ends its siblings: vLLM exits with 0 when its engine has died. Runs
inside the serving container: standard library and msgspec only.
"""

import os
import resource
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import msgspec

from core.layout import lane_log, task_ended, task_started
from core.plan.bound import BoundPlan, Serving
from core.plan.process_env import process_environment
from core.plan.steps import LaneOf
from core.plan.task import (
    LaneEnded,
    LaneStarted,
    LaunchFailed,
    Ordered,
    PortTaken,
    RankEnded,
    TaskEnd,
    TaskEnded,
    TaskStarted,
)
from core.units import Port
from core.vllm.serve_args import serve_argv
from shell.store import write_atomic
from shell.worker.download import download_argv, download_variables
from shell.worker.guard import guarded
from shell.worker.lanes import Command, Gone, Lanes, now_ms
from shell.worker.lease import EXPIRES_AFTER_S, LeaseWatch
from shell.worker.port_leases import PortInUse, claim
from shell.worker.task import Options, Refused, Task, read_task

_EXIT_RANK_ENDED = 1
LEASE_EXPIRED = "the controller has given no sign of life"


def serve(options: Options, environ: Mapping[str, str]) -> int:
    """Run this node's part of the step until it ends.

    Gives 0 after an order to stop, 1 when a process ended by itself, 75 when a planned port is taken, 78 when this node
    or step is not in the plan or a process cannot be started, 69 and 65 when the plan cannot be read.
    """
    try:
        task = read_task(options, environ)
    except Refused as refused:
        print(f"node: {refused}", file=sys.stderr)
        return refused.code
    except OSError as error:
        print(f"node: {error.filename}: {error.strerror}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    return guarded(lambda: run_task(task, environ), options.starter, lambda: _remove(task.scratch))


def _remove(scratch: str) -> None:
    shutil.rmtree(scratch, ignore_errors=True)


def run_task(task: Task, environ: Mapping[str, str]) -> int:
    """Start, watch and end the processes; what happened is written down for the controller."""
    _raise_open_files()
    lanes = Lanes()
    with ExitStack() as leases:
        cause = _run(task, lanes, leases, environ)
        ended = lanes.end(task.plan.grace_ms / 1000)
    _say(task, cause, lanes.gone)
    _remove(task.scratch)
    record = TaskEnded(
        step=task.options.step,
        launch=task.options.launch,
        node=task.node,
        cause=cause,
        rest="ended" if ended else "killed",
        lanes=tuple(LaneEnded(name=g.name, pid=g.pid, code=g.code, at_ms=g.at_ms) for g in lanes.gone),
        at_ms=now_ms(),
    )
    _write(task_ended(task.options.tasks, task.options.step, task.options.launch, task.node), record)
    return _exit_code(cause)


def _run(task: Task, lanes: Lanes, leases: ExitStack, environ: Mapping[str, str]) -> TaskEnd:
    """Start each process when its delay is over, then wait for the first end or for an order."""
    begun = time.monotonic()
    for lane in sorted(task.lanes, key=lambda lane: lane.lane.launch_delay_ms):
        left = begun + lane.lane.launch_delay_ms / 1000 - time.monotonic()
        happened = lanes.wait(max(0.0, left))
        if happened is not None:
            return _end_of(happened)
        try:
            for address, port in ports_of(task.plan, lane):
                leases.enter_context(claim(address, port))
            lanes.start(_command(task, lane, environ))
        except PortInUse as taken:
            return PortTaken(lane=lane.name, address=taken.address, port=Port(taken.port), holder=taken.holder)
        except OSError as error:
            return LaunchFailed(lane=lane.name, reason=_reason(task, lane, error))
    _write_started(task, lanes)
    return _end_of(_wait(task, lanes))


def _wait(task: Task, lanes: Lanes) -> Gone | str:
    """For the first end, an order to stop, or the end of the controller's lease."""
    options = task.options
    lease = None if options.lease is None else LeaseWatch(options.lease, options.lease_expires_s or EXPIRES_AFTER_S)
    while True:
        happened = lanes.wait(None if lease is None else lease.look_every_s)
        if happened is not None:
            return happened
        if lease is not None and lease.expired():
            return LEASE_EXPIRED


def _reason(task: Task, lane: LaneOf, error: OSError) -> str:
    return f"{error.filename or task.plan.nodes[lane.lane.slot].address}: {error.strerror}"


def _end_of(happened: Gone | str) -> TaskEnd:
    return RankEnded(lane=happened.name) if isinstance(happened, Gone) else Ordered(signal=happened)


def ports_of(plan: BoundPlan, of: LaneOf) -> list[tuple[str, Port]]:
    """Where a process will listen. Rendezvous ports are bound on every address, its API on the planned one.

    From its internal ports it takes the free ones itself. Simulated nodes share a machine: their addresses are kept
    apart.
    """
    address = plan.nodes[of.lane.slot].address
    everywhere = address if address.startswith("127.") else "::" if ":" in address else "0.0.0.0"
    ports = [(address, of.lane.role.http_port)] if isinstance(of.lane.role, Serving) else []
    if of.lane.rank == of.replica.lanes[0].rank:
        meeting = (of.replica.master_port, of.replica.rpc_port)
        ports += [(everywhere, port) for port in meeting if port is not None]
    return ports


def _command(task: Task, lane: LaneOf, environ: Mapping[str, str]) -> Command:
    argv, own = serve_argv(task.plan, lane), process_environment(task.plan, lane, environ, task.scratch)
    download = next((one for one in task.plan.downloads if one.step == task.options.step), None)
    if download is not None:
        own |= download_variables()
        argv = download_argv(download, lane.deployment.executable, task.options.tasks, own)
    return Command(
        name=lane.name,
        argv=argv,
        environ=own,
        log=lane_log(task.options.logs, task.options.step, task.options.launch, lane.name),
    )


def _write_started(task: Task, lanes: Lanes) -> None:
    record = TaskStarted(
        step=task.options.step,
        launch=task.options.launch,
        node=task.node,
        worker_pid=os.getpid(),
        lanes=tuple(
            LaneStarted(name=lane.name, pid=lane.pid, at_ms=lane.at_ms, log=lane.log) for lane in lanes.running.values()
        ),
    )
    _write(task_started(task.options.tasks, task.options.step, task.options.launch, task.node), record)


def _write(path: str, record: TaskStarted | TaskEnded) -> None:
    """A full or broken file system must not end servers that work."""
    try:
        write_atomic(path, msgspec.json.encode(record))
    except OSError as error:
        print(f"node: {path} cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def _raise_open_files() -> None:
    """Servers need a socket per request; the soft limit of a batch job is often 1024."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _exit_code(cause: TaskEnd) -> int:
    if isinstance(cause, Ordered):
        return os.EX_OK
    if isinstance(cause, PortTaken):
        return os.EX_TEMPFAIL
    return _EXIT_RANK_ENDED if isinstance(cause, RankEnded) else os.EX_CONFIG


def _say(task: Task, cause: TaskEnd, gone: Sequence[Gone]) -> None:
    """One line for people, in the log of the step."""
    if isinstance(cause, RankEnded):
        how = next(f"by signal {-g.code}" if g.code < 0 else f"with {g.code}" for g in gone if g.name == cause.lane)
        text = f"{cause.lane} ended {how}; its siblings on this node were ended"
    elif isinstance(cause, PortTaken):
        text = f"{cause.lane} is not started: port {cause.port} on {cause.address} is taken by {cause.holder}"
    elif isinstance(cause, LaunchFailed):
        text = f"{cause.lane} cannot be started: {cause.reason}"
    else:
        text = f"told to stop ({cause.signal})"
    print(f"node {task.node}: {text}", file=sys.stderr, flush=True)
