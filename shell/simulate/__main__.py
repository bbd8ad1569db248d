"""A stand-in for ``vllm serve``: same command line, same API, same habits, no model. Standard library only.

Used by ``dd-slurm rehearse`` and by tests: ``python -m shell.simulate serve MODEL --port=8000 …``. What goes wrong is
told by `behaviour`.
"""

import asyncio
import os
import signal
import socket
import sys
import time

from shell.simulate.api import VERSION, Api
from shell.simulate.behaviour import Behaviour, follow_commands, from_environment
from shell.simulate.children import SIGNALS, end_children, start_children
from shell.simulate.engine import MAX_NUM_SEQS, Engine
from shell.simulate.http import serve_on
from shell.simulate.meeting import NotMet, Place, meet, place_of, served_ranks
from shell.simulate.options import Options, UsageError, known_flags, parse
from shell.simulate.refusals import refusal


def main(words: list[str]) -> int:
    """Serve until TERM; the exit code as vLLM's."""
    if words in (["--version"], ["-v"]):
        print(VERSION)
        return 0
    if {"-h", "--help", "--help=all"} & set(words):
        print("usage: vllm serve [model_tag] [options]\n\noptions:", *known_flags(), sep="\n  ")
        return 0
    try:
        options = parse(words)
        place = place_of(options)
        refused = refusal(options)
    except UsageError as error:
        print(f"usage: vllm serve [model_tag] [options]\nvllm: error: {error}", file=sys.stderr)
        return 2
    say("INFO", f"vLLM API server version {VERSION}, model {options.model}, names {' '.join(options.names)}")
    if refused:
        say("ERROR", refused)
        return 1
    try:
        behaviour = from_environment(options.names, place.rank if place else 0)
        listener = None if options.headless else early_bound(options)
    except (OSError, ValueError) as error:
        say("ERROR", f"{type(error).__name__}: {error}")
        return 1
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until somebody can end the children too
    return asyncio.run(Server(options, place, behaviour, listener).serve())


def early_bound(options: Options) -> socket.socket:
    """The socket, bound but not listening: a connection is refused while the server loads."""
    host = options.text("--host", "0.0.0.0")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, options.number("--port", 8000)))
    return bound


class Server:
    """One process of a replica, from its start to its end."""

    def __init__(
        self, options: Options, place: Place | None, behaviour: Behaviour, listener: socket.socket | None
    ) -> None:
        self._options, self._place, self._behaviour, self._listener = options, place, behaviour, listener
        self._children = start_children(listener)
        slots = options.number("--max-num-seqs", MAX_NUM_SEQS)
        self._engine = Engine(behaviour, slots, served_ranks(options, place), self._fail)

    async def serve(self) -> int:
        """Load, meet the others, listen, and wait for the end."""
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._told_to_end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        for child in self._children:
            self._watch(child)
        loading = asyncio.create_task(self._load())
        following = asyncio.create_task(follow_commands(self._behaviour, self._options.names[-1], self._obey))
        code = await self._ended
        await self._drain()
        loading.cancel()
        following.cancel()
        end_children(self._children)
        say("INFO", "Application shutdown complete.")
        os._exit(code)

    async def _load(self) -> None:
        await asyncio.sleep(self._behaviour.startup_s)
        if self._behaviour.fail_at == "startup":
            if not self._behaviour.fail_says:
                say("ERROR", "RuntimeError: Engine core initialization failed. See root cause above. (told to fail)")
            self._fail()
        if self._behaviour.hang_startup:
            await asyncio.Event().wait()
        try:
            if self._place is not None:
                await meet(self._place, self._engine.lose)
            if self._listener is not None:
                await self._listen(self._listener)
        except (OSError, NotMet) as error:
            say("ERROR", f"{type(error).__name__}: {error}")
            self._end(1)
            return
        if self._behaviour.fail_at == "after_s":
            await asyncio.sleep(self._behaviour.fail_count)
            self._fail()

    async def _listen(self, listener: socket.socket) -> None:
        options = self._options
        keys = options.given.get("--api-key") or [os.environ.get("VLLM_API_KEY", "")]
        most_waiting = options.number("--max-num-queued-reqs", 0) or None
        figures = "--disable-log-stats" not in options.given
        api = Api(
            self._engine,
            options.names,
            keys=tuple(filter(None, keys)),
            most_waiting=most_waiting,
            figures=figures,
            longest=options.longest,
        )
        say("INFO", f"Starting vLLM server on http://{options.text('--host', '0.0.0.0')}:{listener.getsockname()[1]}")
        await serve_on(listener, api)
        print("INFO:     Application startup complete.", flush=True)

    def _obey(self, name: str) -> None:
        say("INFO", f"took over what {name} tells")
        if self._behaviour.fail_at == "now":
            self._fail()

    def _fail(self) -> None:
        """End as told. An orderly end takes the children along; a signal leaves them, as KILL does in reality."""
        for line in self._behaviour.fail_says:
            print(line, flush=True)
        ending = self._behaviour.fail_exit
        if ending < 0:
            os.kill(os.getpid(), -ending)
        end_children(self._children)
        os._exit(ending)

    def _watch(self, child: int) -> None:
        """As in vLLM: when the engine core or a worker dies, the server says 503 for a moment and exits with 0."""
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(child)

        def lost() -> None:
            loop.remove_reader(descriptor)
            self._engine.dead = True
            say(
                "ERROR", "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
            )
            loop.call_later(0.5, self._end, 0)

        loop.add_reader(descriptor, lost)

    def _told_to_end(self) -> None:
        if not self._behaviour.ignore_term:
            self._end(0)

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    async def _drain(self) -> None:
        """Let running requests end, as long as ``--shutdown-timeout`` allows (0 as in vLLM: not at all)."""
        until = time.monotonic() + self._options.number("--shutdown-timeout", 0)
        while self._engine.running + self._engine.waiting and time.monotonic() < until and not self._engine.dead:
            await asyncio.sleep(0.02)


def say(level: str, text: str) -> None:
    """A line of the log, in vLLM's form."""
    now = time.strftime("%m-%d %H:%M:%S")
    print(f"(APIServer pid={os.getpid()}) {level} {now} [simulate] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
