"""How the processes of one replica find one another: the leader listens and waits, the others come and stay.

As with the real ones, the death of the leader does not end the others, and a leader does not notice that one of the
others has died: what that one is asked hangs from then on. Standard library only.
"""

import asyncio
import dataclasses
import socket
from collections.abc import Callable

from shell.simulate.options import Options


class NotMet(Exception):
    """Not all came in time."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where this process meets the others. `others` are those that the leader waits for."""

    rank: int
    others: int
    address: str
    port: int
    patience_s: int
    data: int

    @property
    def nodes(self) -> int:
        """All processes."""
        return self.others + 1

    def ranks_of(self, node: int) -> range:
        """The data-parallel ranks that a process has a part of."""
        first = node * self.data // self.nodes
        return range(first, max(first + 1, (node + 1) * self.data // self.nodes))


def place_of(options: Options) -> Place | None:
    """The place of this process; None when it is alone."""
    patience, data = options.number("--distributed-timeout-seconds", 600), options.data
    if options.nodes > 1:
        address, rank = options.text("--master-addr", "127.0.0.1"), options.number("--node-rank", 0)
        return Place(rank, options.nodes - 1, address, options.number("--master-port", 29501), patience, data)
    if data == 1 or options.local_data in (0, data):
        return None
    address = options.text("--data-parallel-address", options.text("--master-addr", "127.0.0.1"))
    port, local = options.number("--data-parallel-rpc-port", 29550), options.local_data
    start = options.number("--data-parallel-rank", options.number("--data-parallel-start-rank", 0))
    return Place(start // local, data // local - 1, address, port, patience, data)


def served_ranks(options: Options, place: Place | None) -> range:
    """The data-parallel ranks among which the API of this process shares out requests."""
    if place is not None and options.own_load_balancing:
        return place.ranks_of(place.rank)
    return range(options.data)


async def meet(place: Place, lost: Callable[[range], None]) -> None:
    """Return when all are there; `NotMet` when they do not come. `lost` is called when one has gone, with its ranks."""
    try:
        await asyncio.wait_for(_lead(place, lost) if place.rank == 0 else _join(place), place.patience_s)
    except asyncio.TimeoutError:
        raise NotMet(f"Timed out after {place.patience_s + 1} seconds waiting for clients.") from None


async def _lead(place: Place, lost: Callable[[range], None]) -> None:
    there: dict[int, asyncio.StreamWriter] = {}
    complete = asyncio.Event()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = (await _line(reader)).strip()
        if not said.isdigit() or complete.is_set():
            writer.close()
            return
        rank = int(said)
        there[rank] = writer
        if len(there) == place.others:
            complete.set()
        await _line(reader)
        writer.close()
        if complete.is_set():
            lost(place.ranks_of(rank))
        elif there.get(rank) is writer:
            del there[rank]

    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    _kept.append(await asyncio.start_server(welcome, place.address, place.port, family=family))
    await complete.wait()
    for writer in there.values():
        writer.write(b"go\n")


async def _join(place: Place) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(place.address, place.port)
            writer.write(b"%d\n" % place.rank)
            if await reader.readline():
                _kept.append(writer)
                return
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(0.05)


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end, also at a rough one."""
    try:
        return await reader.readline()
    except OSError:
        return b""


_kept: list[object] = []
"""Connections are open as long as the process lives."""
