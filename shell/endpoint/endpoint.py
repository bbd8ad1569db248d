"""What all connections of one endpoint share: the state of admission, the pools, the figures, the owner's ear."""

import asyncio
import time
from collections.abc import Callable, Coroutine

import msgspec

from core.admission.decide import Request, decide
from core.admission.decision import Decision
from core.admission.events import (
    AdmissionEvent,
    Answered,
    BackendsGiven,
    DrainAsked,
    Failed,
    Finished,
    LoadSampled,
    Started,
    TurnedAway,
)
from core.admission.observe import begin, observe, seen
from core.admission.rotation import Rotation, rotation_of, unfit
from core.admission.state import Policy
from core.endpoint_spec import BackendState, ControlLine, DrainLine, EndpointSpec, LoadLine, SpokenLine, UseBackends
from core.units import MonotonicMs
from shell.endpoint.answer_head import AnswerHeads
from shell.endpoint.client_connection import ClientConnection
from shell.endpoint.counters import Counters, metrics_text
from shell.endpoint.exchange import Exchange
from shell.endpoint.line_file import LineFile
from shell.endpoint.pool import Pool
from shell.endpoint.request_head import Credentials, RequestHeads
from shell.endpoint.tokens import Tokens


class AccessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the access log. Never a header, never a query."""

    at: float
    method: str
    path: str
    status: int
    outcome: str
    backend: str | None
    ms: int
    retries: int
    body_bytes: int


class Endpoint:
    """Lives in one event loop."""

    def __init__(
        self,
        spec: EndpointSpec,
        tokens: Tokens,
        loop: asyncio.AbstractEventLoop,
        speak: Callable[[SpokenLine], None],
    ) -> None:
        self.spec = spec
        self.loop = loop
        self.clock = loop.time
        self._speak = speak
        self.heads = RequestHeads(
            Credentials(
                client_token=tokens.client,
                cut_client=tokens.client is not None or tokens.server is not None,
                line=b"" if tokens.server is None else b"\r\nAuthorization: Bearer " + tokens.server,
            )
        )
        self._answer_heads = AnswerHeads()
        policy = Policy(max_waiting=spec.max_waiting, retry_after_seconds=spec.retry_after_seconds)
        self.state = begin(policy, self.now())
        self.in_flight: list[int] = []
        """Per backend, in the order of the state."""
        self._turn = 0
        self._rotation: Rotation
        self.unfit: tuple[int, ...] = ()
        """The serials of the rotation that need to be told how their requests go: most of the time there are none."""
        self._rotation_ends = 0.0
        self.pools: dict[int, Pool] = {}
        self.clients: set[ClientConnection] = set()
        self.exchanges = 0
        self.counters = Counters()
        self._access = None if spec.access_log is None else LineFile(spec.access_log)
        self._told: dict[str, BackendState] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def now(self) -> MonotonicMs:
        """The time that decisions are made at."""
        return MonotonicMs(int(self.clock() * 1000))

    def decide(self, request: Request) -> Decision:
        """Where a request goes."""
        if self.clock() >= self._rotation_ends:
            self._rotation = rotation_of(self.state, self.now())
            self._rotation_ends = self._rotation.until / 1000
        return decide(self._rotation, request, self.in_flight, self._turn)

    def started(self, pool: Pool) -> None:
        """A request goes there."""
        pool.counts[pool.place] += 1
        self._turn = pool.place + 1
        if pool.serial in self.unfit:
            self.observe(Started(serial=pool.serial))

    def answered(self, pool: Pool) -> None:
        """A good answer begins."""
        if pool.serial in self.unfit:
            self.observe(Answered(serial=pool.serial))

    def released(self, pool: Pool, fault: Failed | TurnedAway | None) -> None:
        """A request has left the server; whether the server is to blame."""
        pool.counts[pool.place] -= 1
        if fault is not None:
            self.observe(fault)
        elif pool.serial in self.unfit:
            self.observe(Finished(serial=pool.serial))

    def observe(self, event: AdmissionEvent) -> None:
        """Learn from an event, and tell the owner when a server is seen in another way."""
        before = self.state
        self.state = observe(before, event, self.now())
        if self.state is not before:
            self._rotation_ends = 0.0  # worked out anew for the next request, not for each of many events
            self.unfit = unfit(self.state)
        if isinstance(event, BackendsGiven):
            self._fit_pools()
        if self.state.revision != before.revision:
            self._tell()

    def obey(self, line: ControlLine) -> None:
        """Carry out what the owner says."""
        match line:
            case UseBackends(backends=backends):
                self.observe(BackendsGiven(backends=backends))
            case LoadLine(id=name, waiting=waiting, running=running, state=verdict):
                busy = sum(n for n, b in zip(self.in_flight, self.state.backends, strict=True) if b.id == name)
                self.observe(LoadSampled(id=name, waiting=waiting, running=running, verdict=verdict, in_flight=busy))
            case DrainLine():
                self.drain()

    def drain(self) -> None:
        """No further requests; clients that wait for nothing are sent away."""
        self.observe(DrainAsked())
        for client in tuple(self.clients):
            client.stop()

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run it; the loop itself would forget it."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def ended(self, exchange: Exchange, outcome: str, status: int) -> None:
        """Count and log a request that has ended."""
        self.exchanges -= 1
        seconds = self.clock() - exchange.started_at
        self.counters.ended(status, outcome, seconds)
        if self._access is not None:
            record = AccessRecord(
                at=round(time.time(), 3),
                method=exchange.head.method.decode("ascii", "replace"),
                path=exchange.head.path.decode("ascii", "replace"),
                status=status,
                outcome=outcome,
                backend=None if exchange.pool is None else exchange.pool.id,
                ms=int(seconds * 1000),
                retries=exchange.retries,
                body_bytes=exchange.sent_bytes,
            )
            self._access.add(msgspec.json.encode(record))

    def metrics_text(self) -> str:
        """The page for Prometheus."""
        return metrics_text(self.counters, self.state, self.in_flight, self.exchanges, self.now())

    def sweep(self) -> None:
        """To be called about once a second: what is due by the passing of time."""
        for pool in self.pools.values():
            pool.sweep()
        now = self.clock()
        for client in tuple(self.clients):
            client.sweep(now)
        self._tell()
        if self._access is not None:
            self._access.flush()

    def close(self) -> None:
        """Cut off whatever is left."""
        for client in tuple(self.clients):
            client.transport.abort()
        for pool in self.pools.values():
            pool.close()
        if self._access is not None:
            self._access.close()

    def _fit_pools(self) -> None:
        """One pool per server that is used. Requests in flight on others hold on to theirs."""
        wanted = {backend.serial: backend for backend in self.state.backends}
        for serial in self.pools.keys() - wanted.keys():
            self.pools.pop(serial).close()  # it goes on counting in the list that was used until now
        counts: list[int] = []
        for place, (serial, backend) in enumerate(wanted.items()):
            pool = self.pools.get(serial)
            if pool is None:
                pool = Pool(serial, backend.id, backend.host, backend.port, self.clock, self._answer_heads)
                self.pools[serial] = pool
            counts.append(pool.counts[pool.place])
            pool.counts, pool.place = counts, place
        self.in_flight = counts

    def _tell(self) -> None:
        told, self._told = self._told, {}
        for state in seen(self.state, self.in_flight, self.now()):
            self._told[state.id] = state
            before = told.get(state.id)
            if before is None or before.state != state.state:
                self._speak(state)
