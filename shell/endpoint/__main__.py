"""``python -m shell.endpoint --config FILE``: one logical endpoint for one model, until it is told to stop.

Ends with 0 after TERM, INT or the end of standard input (the owner is gone); 75 when the port is taken; 78 when its
start file or a token file cannot be used.
"""

import argparse
import asyncio
import errno
import resource
import signal
import sys
from collections.abc import Callable

import msgspec

from core.endpoint_spec import EndpointSpec, Listening
from core.units import Port
from shell.endpoint.client_connection import ClientConnection
from shell.endpoint.endpoint import Endpoint
from shell.endpoint.owner import Voice, read_control
from shell.endpoint.tokens import Tokens, UnusableToken, read_tokens

_ORPHAN_SECONDS = 0.2
_BACKLOG = 4_096


def main() -> int:
    """Read the start file, serve, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m shell.endpoint", description=__doc__)
    parser.add_argument("--config", required=True, metavar="FILE", help="the start file of this endpoint")
    path = parser.parse_args().config
    try:
        with open(path, "rb") as file:
            spec = msgspec.json.decode(file.read(), type=EndpointSpec)
        tokens = read_tokens(spec)
    except (OSError, msgspec.MsgspecError, UnusableToken) as error:
        print(f"endpoint: {path}: {error}", file=sys.stderr)
        return 78
    _lift_file_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(spec, tokens))


async def _serve(spec: EndpointSpec, tokens: Tokens) -> int:
    loop = asyncio.get_running_loop()
    voice = Voice(spec.events)
    endpoint = Endpoint(spec, tokens, loop, voice.say)
    try:
        server = await loop.create_server(lambda: ClientConnection(endpoint), spec.address, spec.port, backlog=_BACKLOG)
    except OSError as error:
        print(f"endpoint: {spec.address}:{spec.port}: {error}", file=sys.stderr)
        return 75 if error.errno == errno.EADDRINUSE else 78
    told = _listen_to_owner(endpoint)
    sweeping = endpoint.spawn(_sweep(endpoint))
    voice.say(Listening(address=spec.address, port=Port(server.sockets[0].getsockname()[1])))
    grace_seconds = await told
    server.close()
    await _drain(endpoint, grace_seconds)
    sweeping.cancel()
    return 0


def _listen_to_owner(endpoint: Endpoint) -> "asyncio.Future[float]":
    """Told to stop, it gives the seconds that requests in flight still have."""
    loop = endpoint.loop
    told: asyncio.Future[float] = loop.create_future()

    def stop(seconds: float) -> None:
        if not told.done():
            told.set_result(seconds)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, endpoint.spec.grace_ms / 1000)
    read_control(
        lambda line: loop.call_soon_threadsafe(endpoint.obey, line),
        lambda: loop.call_soon_threadsafe(stop, _ORPHAN_SECONDS),
    )
    return told


async def _sweep(endpoint: Endpoint) -> None:
    while True:
        await asyncio.sleep(1)
        endpoint.sweep()


async def _drain(endpoint: Endpoint, seconds: float) -> None:
    """Let requests in flight end, and their last bytes leave, as long as there is time."""
    endpoint.drain()
    deadline = endpoint.clock() + seconds
    while endpoint.clients and endpoint.clock() < deadline:
        await asyncio.sleep(0.01)
    endpoint.close()
    await asyncio.sleep(0)


def _lift_file_limit() -> None:
    """Each stream takes two descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed; everything works without it, only slower."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
