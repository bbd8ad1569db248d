"""What all connections of one endpoint share: the state of admission, the pools, the figures, the owner's ear."""

import asyncio
import hmac
import time
from collections.abc import Callable, Coroutine

import msgspec

from core.admission.decide import Decision, Request, decide
from core.admission.events import AdmissionEvent, BackendsGiven, DrainAsked, LoadSampled
from core.admission.observe import begin, observe, seen
from core.admission.state import Policy
from core.endpoint_spec import BackendState, ControlLine, DrainLine, EndpointSpec, LoadLine, SpokenLine, UseBackends
from core.units import MonotonicMs
from shell.endpoint.client_connection import ClientConnection
from shell.endpoint.counters import Counters, metrics_text
from shell.endpoint.exchange import Exchange
from shell.endpoint.line_file import LineFile
from shell.endpoint.pool import Pool
from shell.endpoint.request_head import Credentials, RequestHead
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
        self._client_token = tokens.client
        self.credentials = Credentials(
            cut_client=tokens.client is not None or tokens.server is not None,
            line=b"" if tokens.server is None else b"\r\nAuthorization: Bearer " + tokens.server,
        )
        policy = Policy(max_waiting=spec.max_waiting, retry_after_seconds=spec.retry_after_seconds)
        self.state = begin(policy, self.now())
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
        return decide(self.state, request, self.now())

    def observe(self, event: AdmissionEvent) -> None:
        """Learn from an event, and tell the owner when a server is seen in another way."""
        before = self.state
        self.state = observe(before, event, self.now())
        if self.state.revision != before.revision:
            self._tell()

    def obey(self, line: ControlLine) -> None:
        """Carry out what the owner says."""
        match line:
            case UseBackends(backends=backends):
                self.observe(BackendsGiven(backends=backends))
                self._fit_pools()
            case LoadLine(id=name, waiting=waiting, running=running, state=verdict):
                self.observe(LoadSampled(id=name, waiting=waiting, running=running, verdict=verdict))
            case DrainLine():
                self.drain()

    def drain(self) -> None:
        """No further requests; clients that wait for nothing are sent away."""
        self.observe(DrainAsked())
        for client in tuple(self.clients):
            client.stop()

    def is_authorized(self, head: RequestHead) -> bool:
        """Whether the client shows the token. Takes the same time however much of it is right."""
        if self._client_token is None:
            return True
        scheme, _, token = (head.authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._client_token)

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
        return metrics_text(self.counters, self.state, self.exchanges, self.now())

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
            self.pools.pop(serial).close()
        for serial in wanted.keys() - self.pools.keys():
            backend = wanted[serial]
            self.pools[serial] = Pool(backend.id, backend.host, backend.port, self.clock)

    def _tell(self) -> None:
        told, self._told = self._told, {}
        for state in seen(self.state, self.now()):
            self._told[state.id] = state
            before = told.get(state.id)
            if before is None or before.state != state.state:
                self._speak(state)
