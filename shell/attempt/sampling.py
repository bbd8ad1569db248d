"""Asks every ready server how loaded it is, for the endpoints, the supervisor and `samples.jsonl`.

One thread per attempt (`shell.attempt.loads`); a server that does not answer delays nobody else. A reader that fails
gives a fresh *unavailable* instead of an old figure (endpoints then admit without it), and is asked again at the next
round.
Only `Exception` is a failure of a reader: KeyboardInterrupt and SystemExit end the thread and reach its owner.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

import msgspec

from core.endpoint_spec import LoadLine
from core.sample import Earlier, Sample, sample
from core.supervise.events import ServerStalled
from core.units import Alias, MonotonicMs, StepName
from core.vllm.metrics import Load, Reading, Unavailable, read_page
from core.vllm.pulse import Pulse, felt, is_stalled
from shell.attempt.interpreter import monotonic_ms
from shell.attempt.loads import Target

EVERY_S = 2.0
SECONDS_PER_SERVER = 0.005
"""A page costs about a millisecond to read: a thousand servers are asked less often, every five seconds."""
STALL_AFTER_MS = 180_000
"""A cold kernel may take minutes to compile at the first request; vLLM itself gives a step 300 s."""
KEEP_EVERY_MS = 10_000
"""For `samples.jsonl`: thousands of servers over days must not fill a disk."""
LONGEST_PAGE = 8 * 1024 * 1024
AT_ONCE = 128
TIMEOUT_S = 4.0


Read: TypeAlias = Callable[[Target], Awaitable[str]]
"""The page of a target. Raises when it cannot be had."""


class Sampler:
    """Asks `targets`, by their ids, in rounds; `tell`, `report` and `keep` get what is learned."""

    def __init__(
        self,
        targets: Callable[[], Mapping[str, Target]],
        tell: Callable[[Alias, LoadLine], None],
        report: Callable[[ServerStalled], None],
        keep: Callable[[bytes], None],
        *,
        clock: Callable[[], MonotonicMs] = monotonic_ms,
        every_s: float = EVERY_S,
        stall_after_ms: int = STALL_AFTER_MS,
        keep_every_ms: int = KEEP_EVERY_MS,
    ) -> None:
        self._targets, self._tell, self._report, self._keep, self._clock = targets, tell, report, keep, clock
        self._every_s, self._stall_after_ms, self._keep_every_ms = every_s, stall_after_ms, keep_every_ms
        self._earlier: dict[str, Earlier] = {}
        self._pulses: dict[str, Pulse] = {}
        self._kept: dict[str, Sample] = {}
        self._reported: set[tuple[StepName, int]] = set()

    async def run(self, token: str, ended: Callable[[], bool], after_round: Callable[[], None]) -> None:
        """Round after round."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def read(target: Target) -> str:
            async with turns:
                return await asyncio.wait_for(page_of(target, token), TIMEOUT_S)

        while not ended():
            await self.round(read)
            after_round()
            await asyncio.sleep(max(self._every_s, SECONDS_PER_SERVER * len(self._targets())))

    async def round(self, read: Read) -> None:
        """Ask all once, at the same time."""
        targets = self._targets()
        for memory in (self._earlier, self._pulses, self._kept):
            for gone in memory.keys() - targets.keys():
                del memory[gone]
        for asked in [asyncio.ensure_future(self._ask(read, target)) for target in targets.values()]:
            await asked

    async def _ask(self, read: Read, target: Target) -> None:
        reading: Reading
        try:
            reading = read_page(await read(target))
        except Exception as error:
            reading = Unavailable(why=f"{type(error).__name__}: {error}")
        if target.id in self._targets():  # else it was taken away while it was asked, and nobody wants to know
            self._learn(target, reading, self._clock())

    def _learn(self, target: Target, reading: Reading, at: MonotonicMs) -> None:
        pulse = felt(self._pulses.pop(target.id, None), reading, at)
        stalled = is_stalled(pulse, at, self._stall_after_ms)
        taken = sample(target.id, reading, at, self._earlier.get(target.id), stalled)
        if pulse is not None:
            self._pulses[target.id] = pulse
        line = LoadLine(id=target.id, waiting=taken.waiting or 0, running=taken.running or 0, state=taken.state)
        self._tell(target.alias, line)
        self._keep_some(taken, reading)
        launch = (target.step, target.launch)
        if stalled and launch not in self._reported:
            self._reported.add(launch)
            self._report(ServerStalled(at=at, step=target.step, launch=target.launch))

    def _keep_some(self, taken: Sample, reading: Reading) -> None:
        last = self._kept.get(taken.id)
        if last is not None and last.state == taken.state and taken.at - last.at < self._keep_every_ms:
            return
        self._kept[taken.id] = taken
        if isinstance(reading, Load):
            self._earlier[taken.id] = Earlier(load=reading, at=taken.at)
        self._keep(msgspec.json.encode(taken))


def run(
    sampler: Sampler,
    token: str,
    ended: Callable[[], bool],
    after_round: Callable[[], None],
    begun: Callable[[Callable[[], object]], None],
) -> None:
    """Sample until `ended`, or until somebody calls what `begun` is given; that is safe from any thread."""

    async def sample() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        await sampler.run(token, ended, after_round)

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(sample())


async def page_of(target: Target, token: str) -> str:
    """The page of metrics. Raises for whatever is no page, also for one that does not end.

    One short request in HTTP/1.0 on a connection of its own: a tenth of the CPU of a client with pools, redirects and
    certificates.
    """
    reader, writer = await asyncio.open_connection(target.url_host, target.port)
    try:
        writer.write(f"GET /metrics HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        if status.split(" ")[1:2] != ["200"]:
            raise ValueError(f"/metrics answers {status!r}")
        lengths = [int(field.split(":")[1]) for field in fields if field.lower().startswith("content-length:")]
        body = await _body(reader, lengths[0] if lengths else None)
    finally:
        writer.close()
    return body.decode("utf-8", "replace")


async def _body(reader: asyncio.StreamReader, length: int | None) -> bytes:
    """As long as the server says it is, else up to the end of the connection."""
    body = bytearray()
    while (length is None or len(body) < length) and (chunk := await reader.read(65_536)):
        body += chunk
        if len(body) > LONGEST_PAGE:
            raise ValueError(f"the page is longer than {LONGEST_PAGE} bytes")
    if length is not None and len(body) < length:
        raise EOFError(f"the page ends after {len(body)} of {length} bytes")
    return bytes(body)
