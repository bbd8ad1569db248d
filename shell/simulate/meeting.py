"""How the processes of one replica find one another: the leader listens and waits, the others come and stay.

As with the real ones, the death of the leader does not end the others, and a leader does not notice at once that one of
the others has died: its requests hang from then on. Standard library only.
"""

import asyncio
import dataclasses
import socket
from collections.abc import Callable

from shell.simulate.options import Options


@dataclasses.dataclass(frozen=True)
class Place:
    """Where this process meets the others. `others` are those that the leader waits for."""

    rank: int
    others: int
    address: str
    port: int


def place_of(options: Options) -> Place | None:
    """The place of this process; None when it is alone."""
    nodes, data = options.number("--nnodes", 1), options.number("--data-parallel-size", 1)
    if nodes > 1:
        address = options.text("--master-addr", "127.0.0.1")
        rank = options.number("--node-rank", 0)
        return Place(rank=rank, others=nodes - 1, address=address, port=options.number("--master-port", 29501))
    if data == 1 or "--data-parallel-address" not in options.given:
        return None
    address, port = options.text("--data-parallel-address", ""), options.number("--data-parallel-rpc-port", 29550)
    if "--data-parallel-rank" in options.given:
        rank = options.number("--data-parallel-rank", 0)
        return Place(rank=rank, others=data - 1, address=address, port=port)
    local = options.number("--data-parallel-size-local", data)
    rank = options.number("--data-parallel-start-rank", 0) // local
    return Place(rank=rank, others=data // local - 1, address=address, port=port)


async def meet(place: Place, lost: Callable[[], None]) -> None:
    """Return when all are there. `lost` is called when one of the others has gone."""
    if place.rank == 0:
        await _wait_for_others(place, lost)
    else:
        await _join(place)


async def _wait_for_others(place: Place, lost: Callable[[], None]) -> None:
    there: list[asyncio.StreamWriter] = []
    complete = asyncio.Event()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await reader.readline():
            return
        there.append(writer)
        if len(there) == place.others:
            complete.set()
        await reader.read()
        lost()

    if place.others == 0:
        return
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    await asyncio.start_server(welcome, place.address, place.port, family=family)
    await complete.wait()
    for writer in there:
        writer.write(b"go\n")


async def _join(place: Place) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(place.address, place.port)
            writer.write(b"%d\n" % place.rank)
            if await reader.readline():
                _kept.append(writer)
                return
        except OSError:
            pass
        await asyncio.sleep(0.05)


_kept: list[asyncio.StreamWriter] = []
"""Connections are open as long as the process lives."""
