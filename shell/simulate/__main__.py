"""A stand-in for ``vllm serve``: same command line, same API, same habits, no model. Standard library only.

Used by ``dd-slurm rehearse`` and by tests: ``python -m shell.simulate serve MODEL --port=8000 …``.
"""

import asyncio
import os
import signal
import socket
import sys

from shell.simulate.api import VERSION, Api
from shell.simulate.behaviour import Behaviour, follow_commands, from_environment
from shell.simulate.engine import MAX_NUM_SEQS, Engine, fail, start_children
from shell.simulate.http import MOST_HEADER_BYTES, serve_connection
from shell.simulate.meeting import Place, meet, place_of
from shell.simulate.options import Options, UsageError, parse


def main(words: list[str]) -> int:
    """Serve until TERM; the exit code as vLLM's."""
    if words == ["--version"]:
        print(VERSION)
        return 0
    try:
        options = parse(words)
        place = place_of(options)
    except UsageError as error:
        print(f"usage: vllm [-h] [-v] {{serve}} ...\nvllm: error: {error}", file=sys.stderr)
        return 2
    say(f"vLLM API server version {VERSION}; model {options.model}; names {' '.join(options.names)}")
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if devices and len(devices.split(",")) < options.local_ranks:
        say(f"ERROR World size ({options.local_ranks}) is larger than the number of available GPUs ({devices})")
        return 1
    try:
        listener = None if options.headless else early_bound(options)
    except OSError as error:
        say(f"ERROR OSError: [Errno {error.errno}] {os.strerror(error.errno or 0)}")
        return 1
    return asyncio.run(serve(options, place, listener, start_children()))


def early_bound(options: Options) -> socket.socket:
    """The socket, bound but not listening: a connection is refused while the server loads."""
    host = options.text("--host", "0.0.0.0")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, options.number("--port", 8000)))
    return bound


async def serve(options: Options, place: Place | None, listener: socket.socket | None, children: list[int]) -> int:
    """Load, meet the others, listen, and wait for the end."""
    behaviour = from_environment(options.names, place.rank if place else 0)
    engine = Engine(behaviour, options.number("--max-num-seqs", MAX_NUM_SEQS))
    ended = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _end, ended, 0)
    _watch(children, engine, ended)
    work = [asyncio.create_task(_load(options, place, listener, engine))]
    work.append(asyncio.create_task(follow_commands(behaviour, options.names[-1], lambda: _after_command(behaviour))))
    code = int(await ended)
    for child in children:
        os.kill(child, signal.SIGKILL)
    for task in work:
        task.cancel()
    say("Shutting down")
    sys.stdout.flush()
    os._exit(code)


async def _load(options: Options, place: Place | None, listener: socket.socket | None, engine: Engine) -> None:
    behaviour = engine.behaviour
    await asyncio.sleep(behaviour.startup_s)
    if behaviour.fail_at == "startup":
        say("ERROR EngineCore failed to start: simulated failure")
        fail(behaviour)
    if behaviour.hang_startup:
        await asyncio.Event().wait()
    if place is not None:
        await meet(place, lambda: setattr(engine, "broken", True))
    if listener is not None:
        api = Api(engine, options.names, os.environ.get("VLLM_API_KEY") or options.text("--api-key", "") or None)
        await asyncio.start_server(
            lambda reader, writer: serve_connection(api, reader, writer),
            sock=listener,
            limit=MOST_HEADER_BYTES,
            backlog=2048,
        )
    say("Application startup complete.")
    if behaviour.fail_at == "after_s":
        await asyncio.sleep(behaviour.fail_count)
        fail(behaviour)


def _after_command(behaviour: Behaviour) -> None:
    if behaviour.fail_at == "now":
        fail(behaviour)


def _watch(children: list[int], engine: Engine, ended: "asyncio.Future[int]") -> None:
    """As in vLLM: when the engine core or a worker dies, the server says 503 for a moment and exits with 0."""
    loop = asyncio.get_running_loop()

    def lost(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        engine.dead = True
        say("ERROR EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.")
        loop.call_later(0.5, _end, ended, 0)

    for child in children:
        descriptor = os.pidfd_open(child)
        loop.add_reader(descriptor, lost, descriptor)


def _end(ended: "asyncio.Future[int]", code: int) -> None:
    if not ended.done():
        ended.set_result(code)


def say(text: str) -> None:
    """A line of the log."""
    print(f"INFO {text}" if not text.startswith("ERROR") else text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
