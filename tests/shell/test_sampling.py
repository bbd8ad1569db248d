"""Sampling servers: what is told, kept and reported; and that a failing reader changes nothing for the next round."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest
from typing_extensions import override

from core.endpoint_spec import BackendAddress, LoadLine
from core.plan.steps import steps_of
from core.sample import Sample
from core.supervise.events import ServerStalled
from core.units import Alias, MonotonicMs, Port, StepName
from shell.attempt import sampling
from shell.attempt.loads import Loads, Target, targets_of
from shell.attempt.sampling import Sampler
from tests.core.plan_cases import bound_on, planned


def target(name: str = "m-0", launch: int = 1, port: int = 9) -> Target:
    return Target(
        id=f"{name}.{launch}.0",
        alias=Alias("m"),
        step=StepName(name),
        launch=launch,
        url_host="127.0.0.1",
        port=Port(port),
    )


def page(running: int, waiting: int, made: int) -> str:
    return (
        f'vllm:num_requests_running{{engine="0"}} {running}\nvllm:num_requests_waiting{{engine="0"}} {waiting}\n'
        f'vllm:generation_tokens_total{{engine="0"}} {made}\n'
    )


class Heard:
    """A sampler with a clock of its own, and all that it said."""

    def __init__(self, stall_after_ms: int = 60_000, keep_every_ms: int = 0) -> None:
        self.now = 0
        self.lines: list[tuple[str, LoadLine]] = []
        self.stalls: list[ServerStalled] = []
        self.kept: list[Sample] = []
        self.targets: list[Target] = []
        self.sampler = Sampler(
            lambda: {target.id: target for target in self.targets},
            lambda alias, line: self.lines.append((alias, line)),
            self.stalls.append,
            lambda line: self.kept.append(msgspec.json.decode(line, type=Sample)),
            clock=lambda: MonotonicMs(self.now),
            stall_after_ms=stall_after_ms,
            keep_every_ms=keep_every_ms,
        )

    def round(self, answer: Callable[[Target], str], after_ms: int = 2000) -> None:
        async def read(asked: Target) -> str:
            return answer(asked)

        self.now += after_ms
        asyncio.run(self.sampler.round(read))

    @property
    def states(self) -> list[str]:
        return [line.state for _, line in self.lines]


def broken(asked: Target) -> str:
    raise ConnectionRefusedError("refused")


def test_figures_go_to_the_endpoint_and_to_the_file() -> None:
    heard = Heard()
    heard.targets = [target()]
    heard.round(lambda _: page(3, 5, 100))
    heard.round(lambda _: page(4, 0, 300))
    assert heard.lines == [
        ("m", LoadLine(id="m-0.1.0", waiting=5, running=3, state="fine")),
        ("m", LoadLine(id="m-0.1.0", waiting=0, running=4, state="fine")),
    ]
    assert [taken.generation_tokens_per_s for taken in heard.kept] == [None, 100.0]


def test_a_failing_reader_gives_unavailable_and_recovers() -> None:
    heard = Heard()
    heard.targets = [target()]
    heard.round(lambda _: page(3, 5, 100))
    heard.round(broken)
    heard.round(broken)
    heard.round(lambda _: page(3, 1, 200))
    assert heard.states == ["fine", "unavailable", "unavailable", "fine"]
    assert heard.lines[1][1] == LoadLine(id="m-0.1.0", waiting=0, running=0, state="unavailable")
    assert heard.kept[1].why == "ConnectionRefusedError: refused"
    assert heard.kept[3].generation_tokens_per_s == pytest.approx(100 / 6, abs=0.1)


def test_one_failing_server_does_not_hide_another() -> None:
    heard = Heard()
    heard.targets = [target("m-0"), target("m-1")]
    heard.round(lambda asked: broken(asked) if asked.step == "m-0" else page(1, 1, 1))
    assert {line.id: line.state for _, line in heard.lines} == {"m-0.1.0": "unavailable", "m-1.1.0": "fine"}


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_goes_through(ending: type[BaseException]) -> None:
    def end(_: Target) -> str:
        raise ending

    heard = Heard()
    heard.targets = [target()]
    with pytest.raises(ending):
        heard.round(end)
    assert heard.lines == []
    heard.round(lambda _: page(1, 1, 1))
    assert heard.states == ["fine"]


def test_a_stall_is_reported_once_per_launch() -> None:
    heard = Heard(stall_after_ms=5_000)
    heard.targets = [target()]
    for _ in range(5):
        heard.round(lambda _: page(2, 9, 100))
    assert heard.states == ["fine", "fine", "fine", "stalled", "stalled"]
    assert heard.stalls == [ServerStalled(at=MonotonicMs(8000), step=StepName("m-0"), launch=1)]
    heard.targets = [target(launch=2)]
    for _ in range(4):
        heard.round(lambda _: page(2, 9, 100))
    assert [stall.launch for stall in heard.stalls] == [1, 2]


def test_tokens_that_flow_are_no_stall() -> None:
    heard = Heard(stall_after_ms=5_000)
    heard.targets = [target()]
    for made in range(9):
        heard.round(lambda _, made=made: page(2, 9, made))  # type: ignore[misc]
    assert heard.stalls == []


def test_the_file_gets_a_line_at_a_change_and_else_seldom() -> None:
    heard = Heard(keep_every_ms=10_000)
    heard.targets = [target()]
    for made in range(0, 70, 10):
        heard.round(lambda _, made=made: page(1, 0, made))  # type: ignore[misc]
    heard.round(broken)
    assert [(taken.at, taken.state) for taken in heard.kept] == [
        (2000, "fine"),
        (12000, "fine"),
        (16000, "unavailable"),
    ]
    assert heard.kept[1].generation_tokens_per_s == 5.0, "over the ten seconds between the lines"


def test_a_server_that_was_taken_away_meanwhile_is_not_spoken_of() -> None:
    heard = Heard()
    heard.targets = [target()]

    def taken_away(_: Target) -> str:
        heard.targets = []
        return page(1, 1, 1)

    heard.round(taken_away)
    assert heard.lines == []


def test_a_server_that_comes_back_begins_anew() -> None:
    heard = Heard(stall_after_ms=5_000)
    for targets in ([target()], [], [target()]):
        heard.targets = targets
        heard.round(lambda _: page(2, 0, 100), after_ms=4_000)
    assert heard.states == ["fine", "fine"]
    assert [taken.generation_tokens_per_s for taken in heard.kept] == [None, None]


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = page(1, 2, 3).encode() if self.path == "/metrics" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def pages() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_servers_are_asked_from_the_first_route_until_the_end(
    pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "EVERY_S", 0.01)
    heard: SimpleQueue[LoadLine] = SimpleQueue()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()[1]
    samples = tmp_path / "samples.jsonl"
    with ThreadPoolExecutor(1) as pool:
        running: list[Future[None]] = []
        loads = Loads(
            str(samples),
            "a token",
            lambda alias, line: heard.put(line),
            lambda stall: None,
            lambda work: running.append(pool.submit(work)),
        )
        loads.watch(Alias("m"), [target("m-0", port=pages)])
        loads.watch(Alias("n"), [target("n-0", port=closed)])
        states: dict[str, str] = {}
        while len(states) < 2:
            line = heard.get(timeout=30)
            states[line.id] = line.state
        loads.close()
        (thread,) = running
        thread.result(timeout=30)
    assert states == {"m-0.1.0": "fine", "n-0.1.0": "unavailable"}
    kept = [msgspec.json.decode(line, type=Sample) for line in samples.read_bytes().splitlines()]
    assert {taken.id: taken.why and "ConnectionRefusedError" in taken.why for taken in kept} == {
        "m-0.1.0": None,
        "n-0.1.0": True,
    }
    assert samples.stat().st_mode & 0o777 == 0o600


def test_a_server_that_hangs_does_not_delay_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        running: list[Future[None]] = []
        loads = Loads(
            str(tmp_path / "samples.jsonl"),
            "a token",
            lambda alias, line: None,
            lambda stall: None,
            lambda work: running.append(pool.submit(work)),
        )
        loads.watch(Alias("m"), [target(port=silent.getsockname()[1])])
        connection, _ = silent.accept()
        with connection:
            loads.close()
            loads.close()
            running[0].result(timeout=sampling.TIMEOUT_S)
    loads.close()


def ask(answer: bytes, stays: bool = False) -> str:
    """What a server that says this is understood to say."""

    async def both() -> str:
        served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.readuntil(b"\r\n\r\n")
            assert b"Bearer a token\r\n" in request
            writer.write(answer)
            if stays:
                await reader.read()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            try:
                return await sampling.page_of(target(port=server.sockets[0].getsockname()[1]), "a token")
            finally:
                await served.wait()

    return asyncio.run(both())


@pytest.mark.parametrize("fields", [b"", b"Content-Length: 5\r\n", b"content-type: text/plain\r\ncontent-length:5\r\n"])
def test_a_page_with_and_without_its_length(fields: bytes) -> None:
    assert ask(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\na 1\nb") == "a 1\nb"


def test_a_server_that_keeps_the_connection_is_not_waited_for() -> None:
    assert ask(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na 1", stays=True) == "a 1"


def test_targets_are_the_servers_of_the_step_with_an_api() -> None:
    plan = planned([{"resources": {"nodes": 2}, "topology": {"pipeline_parallel": 2, "nodes_per_replica": 2}}, {}])
    bound = bound_on(plan.unwrap(), gpus=8).unwrap()
    first, second, *others = steps_of(bound)
    (leader,) = targets_of(bound, first, 1)
    assert (leader.id, leader.alias, leader.launch) == ("m0-0.1.0", "m0", 1)
    assert leader.address == BackendAddress(id="m0-0.1.0", url_host=bound.nodes[0].address, port=leader.port)
    targets = [target for step in (second, *others) for target in targets_of(bound, step, 3)]
    assert {target.id for target in targets} == {f"{step.name}.3.0" for step in (second, *others)}
    assert len({(target.url_host, target.port) for target in [leader, *targets]}) == len(targets) + 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "404 Not Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", "ends after 5 of 50 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nx", "invalid literal"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 11, "longer than 10 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + b"x" * 11, "longer than 10 bytes"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "answers 'SSH"),
        (b"HTTP/1.1 200", "bytes read"),
        (b"", "bytes read"),
    ],
)
def test_what_is_no_page(answer: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LONGEST_PAGE", 10)
    with pytest.raises((ValueError, EOFError), match=why):
        ask(answer)
