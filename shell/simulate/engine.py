"""The stand-in's engine: slots, a waiting queue, counters, and the child processes that a real one has.

Standard library only.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

from shell.simulate.behaviour import Behaviour

MAX_NUM_SEQS = 256
"""vLLM's own default on most machines."""


class Engine:
    """At most `slots` requests run, the others wait, as in vLLM; nothing is refused here."""

    def __init__(self, behaviour: Behaviour, slots: int) -> None:
        self.behaviour = behaviour
        self.running = 0
        self.waiting = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished = 0
        self.dead = False
        self.broken = False
        self._slots = asyncio.Semaphore(slots)

    async def generate(self, prompt_tokens: int, pieces: list[str]) -> AsyncIterator[str]:
        """The pieces of an answer, as fast as the behaviour allows; for ever silent when stalled or broken."""
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            self.prompt_tokens += prompt_tokens
            await asyncio.sleep(self.behaviour.ttft_s)
            for piece in pieces:
                while self.behaviour.stalled or self.broken:
                    await asyncio.sleep(0.05)
                if self.behaviour.tokens_per_s:
                    await asyncio.sleep(1 / self.behaviour.tokens_per_s)
                self.generation_tokens += 1
                yield piece
            self.finished += 1
            self._fail_if_told("after_requests", self.finished)
        finally:
            self.running -= 1
            self._slots.release()

    def _fail_if_told(self, moment: str, count: float) -> None:
        if self.behaviour.fail_at == moment and count >= self.behaviour.fail_count:
            fail(self.behaviour)

    def metrics(self, model: str) -> str:
        """A page in vLLM's names."""
        labels = f'{{engine="0",model_name="{model}"}}'
        finished = f'{{engine="0",finished_reason="stop",model_name="{model}"}}'
        usage = min(1.0, self.running / MAX_NUM_SEQS)
        rows = (
            ("num_requests_running", "gauge", labels, float(self.running)),
            ("num_requests_waiting", "gauge", labels, float(self.waiting)),
            ("kv_cache_usage_perc", "gauge", labels, usage),
            ("prompt_tokens_total", "counter", labels, float(self.prompt_tokens)),
            ("generation_tokens_total", "counter", labels, float(self.generation_tokens)),
            ("num_preemptions_total", "counter", labels, 0.0),
            ("request_success_total", "counter", finished, float(self.finished)),
        )
        page = ""
        for name, kind, with_labels, value in rows:
            family = name.removesuffix("_total") if kind == "counter" else name
            page += f"# HELP vllm:{family} Simulated.\n# TYPE vllm:{family} {kind}\nvllm:{name}{with_labels} {value}\n"
        return page


def fail(behaviour: Behaviour) -> None:
    """End at once, as told: an exit code, or a signal when below 0."""
    if behaviour.fail_exit < 0:
        os.kill(os.getpid(), -behaviour.fail_exit)
    os._exit(behaviour.fail_exit)


def start_children() -> list[int]:
    """An engine core and a worker, which do nothing but live. They survive a killed API server, as real ones do."""
    return [_sleeper() for _ in ("EngineCore", "Worker")]


def _sleeper() -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            signal.pause()
    return child
