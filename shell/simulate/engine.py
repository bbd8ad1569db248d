"""The stand-in's engines: slots, a waiting queue, figures. One per data-parallel rank. Standard library only."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from shell.simulate.behaviour import Behaviour
from shell.simulate.metrics import Figures, page

MAX_NUM_SEQS = 256
"""vLLM's own default on most machines."""

_LAST_WORDS_S = 0.02
"""Time for the last answer to leave before a told failure."""

_Piece = TypeVar("_Piece")


class Engine:
    """At most `slots` requests run on each data-parallel rank, the others wait, as in vLLM."""

    def __init__(self, behaviour: Behaviour, slots: int, ranks: Iterable[int], fail: Callable[[], None]) -> None:
        self.behaviour = behaviour
        self._fail = fail
        self.dead = False
        self.rejected = 0
        self._slots = slots
        self._figures = {rank: Figures() for rank in ranks}
        self._free = {rank: asyncio.Semaphore(slots) for rank in self._figures}
        self._lost: set[int] = set()

    @property
    def running(self) -> int:
        """Requests that are being answered."""
        return sum(figures.running for figures in self._figures.values())

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return sum(figures.waiting for figures in self._figures.values())

    @property
    def answered(self) -> int:
        """Requests that came to their end."""
        return sum(figures.answered for figures in self._figures.values())

    def lose(self, ranks: Iterable[int]) -> None:
        """The process of these ranks has gone: nobody notices, but what they are asked hangs."""
        self._lost.update(ranks)

    async def generate(self, prompt_tokens: int, pieces: Sequence[_Piece], reason: str) -> AsyncGenerator[_Piece, None]:
        """The pieces (about a token each), as fast as the behaviour allows; for ever silent when stalled."""
        rank = min(self._figures, key=lambda number: self._load(self._figures[number]))
        figures, came = self._figures[rank], time.monotonic()
        await self._slot(rank, figures)
        figures.running += 1
        ended = "abort"
        try:
            figures.in_queue.add(time.monotonic() - came)
            figures.prompt_tokens += prompt_tokens
            await asyncio.sleep(self.behaviour.ttft_s)
            async for piece in self._paced(rank, figures, pieces, came):
                yield piece
            ended = reason
            figures.whole_request.add(time.monotonic() - came)
            figures.prompt_sizes.add(prompt_tokens)
            figures.answer_sizes.add(len(pieces))
        finally:
            figures.ended[ended] += 1
            figures.running -= 1
            self._free[rank].release()
        if self.behaviour.fail_at == "after_requests" and self.answered >= self.behaviour.fail_count:
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._fail)

    async def _slot(self, rank: int, figures: Figures) -> None:
        figures.waiting += 1
        try:
            await self._free[rank].acquire()
        except asyncio.CancelledError:
            figures.ended["abort"] += 1
            raise
        finally:
            figures.waiting -= 1

    async def _paced(self, rank: int, figures: Figures, pieces: Sequence[_Piece], came: float) -> AsyncIterator[_Piece]:
        last = came
        for index, piece in enumerate(pieces):
            while self.behaviour.stalls(self.answered) or rank in self._lost:
                await asyncio.sleep(0.05)
            if self.behaviour.tokens_per_s:
                await asyncio.sleep(1 / self.behaviour.tokens_per_s)
            now = time.monotonic()
            (figures.between_tokens if index else figures.time_to_first).add(now - last)
            last = now
            figures.generation_tokens += 1
            yield piece

    @staticmethod
    def _load(figures: Figures) -> int:
        return figures.running + figures.waiting

    def metrics(self, model: str) -> str:
        """The page of figures."""
        return page(model, self._figures, self._slots, self.rejected)
