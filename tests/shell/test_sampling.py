"""Sampling servers: what is told, kept and reported; and that a failing reader changes nothing for the next round."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue

import httpx
import msgspec
import pytest
from typing_extensions import override

from core.endpoint_spec import LoadLine
from core.sample import Sample
from core.supervise.events import ServerStalled
from core.units import Alias, MonotonicMs, StepName
from shell import sampling
from shell.loads import Loads, Target
from shell.sampling import Sampler


def target(name: str = "m-0", launch: int = 1, base_url: str = "http://127.0.0.1:9") -> Target:
    return Target(id=f"{name}.{launch}.0", alias=Alias("m"), step=StepName(name), launch=launch, base_url=base_url)


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
            lambda: self.targets,
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
    raise httpx.ConnectError("refused")


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
    assert heard.kept[1].why == "ConnectError: refused"
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
def pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_servers_are_asked_from_the_first_route_until_the_end(
    pages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "EVERY_S", 0.01)
    heard: SimpleQueue[LoadLine] = SimpleQueue()
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
        loads.watch(Alias("m"), [target("m-0", base_url=pages)])
        loads.watch(Alias("n"), [target("n-0", base_url=f"{pages}/wrong")])
        states: dict[str, str] = {}
        while len(states) < 2:
            line = heard.get(timeout=30)
            states[line.id] = line.state
        loads.close()
        (thread,) = running
        thread.result(timeout=30)
    assert states == {"m-0.1.0": "fine", "n-0.1.0": "unavailable"}
    kept = [msgspec.json.decode(line, type=Sample) for line in samples.read_bytes().splitlines()]
    assert {taken.id: taken.why and "404" in taken.why for taken in kept} == {"m-0.1.0": None, "n-0.1.0": True}
    assert samples.stat().st_mode & 0o777 == 0o600


def test_a_server_that_hangs_does_not_delay_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        running: list[Future[None]] = []
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        loads = Loads(
            str(tmp_path / "samples.jsonl"),
            "a token",
            lambda alias, line: None,
            lambda stall: None,
            lambda work: running.append(pool.submit(work)),
        )
        loads.watch(Alias("m"), [target(base_url=url)])
        connection, _ = silent.accept()
        with connection:
            loads.close()
            loads.close()
            running[0].result(timeout=sampling.TIMEOUT.read)
    loads.close()


def test_a_page_without_an_end_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LONGEST_PAGE", 10)

    async def ask() -> str:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"x" * 11))
        async with httpx.AsyncClient(transport=transport) as client:
            return await sampling.page_of(client, target())

    with pytest.raises(ValueError, match="longer than 10 bytes"):
        asyncio.run(ask())
