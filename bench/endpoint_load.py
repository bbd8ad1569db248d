"""Clients of an endpoint, one kind per call: ``endpoint_load.py KIND PORT TOKEN ...`` prints one JSON object.

``small CONNECTIONS SECONDS``: the next request as soon as the answer is there.
``streams CONNECTIONS COUNT GAP_MS``: streams of chunks that say when they were sent.
``hold CONNECTIONS``: streams that stay open until a line comes on standard input; prints when all have begun.
``bodies CONNECTIONS REQUESTS BYTES``: large requests.
"""

import asyncio
import contextlib
import json
import re
import resource
import sys
import time

import uvloop

_STAMP = re.compile(rb"data: ([0-9a-f]{16})\n\n")
_PATIENCE_S = 120.0


def request(port, token, path, body):
    """As the client of Data Designer sends it."""
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
        b"Connection: keep-alive\r\nUser-Agent: python-httpx/0.28\r\nAuthorization: Bearer %b\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path, port, token.encode(), len(body))
    ) + body


def small_body(number=0):
    """Of one of 64 lengths."""
    return b'{"model":"m","messages":[{"role":"user","content":"hello%b"}]}' % (b"o" * (7 * (number % 64)))


SMALL_BODY = small_body()


class Asker(asyncio.Protocol):
    """Sends one of `raws` after the other until `load` says that it is enough."""

    def __init__(self, load, raws):
        self.load, self.raws, self.answer = load, raws, b""

    def connection_made(self, transport):
        self.transport = transport
        self.ask()

    def ask(self):
        if self.load.more():
            self.sent_at = time.perf_counter()
            self.transport.write(self.raws[self.load.left % len(self.raws)])

    def data_received(self, data):
        self.answer += data
        end = self.answer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.answer[:end].lower()
        at = head.find(b"content-length:")
        chunked = at < 0
        length = 0 if chunked else int(head[at + 15 :].split(b"\r\n", 1)[0])
        if self.answer.endswith(b"0\r\n\r\n") if chunked else len(self.answer) >= end + 4 + length:
            self.load.answered(self.answer, time.perf_counter() - self.sent_at)
            self.answer = b""
            self.ask()

    def connection_lost(self, error):
        self.load.lost += 1
        if self.load.lost == self.load.connections:
            self.load.done.set()


class Load:
    """What all askers of one kind found."""

    def __init__(self, connections, requests):
        self.connections, self.requests, self.left = connections, requests, requests
        self.seconds, self.bad, self.lost = [], 0, 0
        self.done = asyncio.Event()

    def more(self):
        self.left -= 1
        return self.left >= 0

    def answered(self, answer, seconds):
        self.bad += not answer.startswith(b"HTTP/1.1 200")
        self.seconds.append(seconds)
        if len(self.seconds) == self.requests:
            self.done.set()


async def ask(port, raws, connections, requests, seconds):
    """Until so many requests are answered, or so many seconds are over."""
    load, loop = Load(connections, requests), asyncio.get_running_loop()
    begun = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Asker(load, raws), "127.0.0.1", port)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(load.done.wait(), seconds)
    spent = time.perf_counter() - begun
    ms = 1000 * sorted(load.seconds)[len(load.seconds) // 2] if load.seconds else None
    return {"requests": len(load.seconds), "seconds": spent, "bad": load.bad, "lost": load.lost, "p50_ms": ms}


class Reader(asyncio.Protocol):
    """Reads a stream to its end."""

    def __init__(self, raw, delays, ended):
        self.raw, self.delays, self.ended, self.rest = raw, delays, ended, b""

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.raw)

    def data_received(self, data):
        now = time.monotonic_ns()
        data = self.rest + data
        at = 0
        for found in _STAMP.finditer(data):
            self.delays.append(now - int(found[1], 16))
            at = found.end()
        self.rest = data[at:]
        if self.rest.endswith(b"0\r\n\r\n"):
            self.transport.close()

    def connection_lost(self, error):
        self.ended()


async def streams(port, token, connections, count, gap_ms):
    """Chunks that came, and how late."""
    loop, delays, over = asyncio.get_running_loop(), [], asyncio.Semaphore(0)
    raw = request(port, token, b"/stream/%d/%d" % (count, gap_ms), SMALL_BODY)
    for number in range(connections):
        await loop.create_connection(lambda: Reader(raw, delays, over.release), "127.0.0.1", port)
        await asyncio.sleep(gap_ms / 1000 / connections if number % 4 == 0 else 0)  # not all at the same moment
    for _ in range(connections):
        await asyncio.wait_for(over.acquire(), _PATIENCE_S)
    delays.sort()
    at = [delays[min(int(len(delays) * part), len(delays) - 1)] / 1e6 for part in (0.5, 0.99)] if delays else [None] * 2
    return {"chunks": len(delays), "wanted": connections * count, "p50_ms": at[0], "p99_ms": at[1]}


class Holder(asyncio.Protocol):
    """Opens a stream and keeps it."""

    def __init__(self, raw, begun):
        self.raw, self.begun, self.got = raw, begun, b""

    def connection_made(self, transport):
        transport.write(self.raw)

    def data_received(self, data):
        self.got += data
        if self.begun is not None and (b"hello" in self.got or self.got[9:12] == b"429"):
            self.begun(self.got[9:12])
            self.begun = None


async def hold(port, token, connections):
    """Whether all streams begin, and how long `/health` takes meanwhile."""
    loop, statuses = asyncio.get_running_loop(), []
    raw, begun_at = request(port, token, b"/hold", SMALL_BODY), time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Holder(raw, statuses.append), "127.0.0.1", port)
    while len(statuses) < connections and time.perf_counter() - begun_at < _PATIENCE_S / 2:
        await asyncio.sleep(0.01)
    spent = time.perf_counter() - begun_at
    asked_at = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        health_ms = 1000 * (time.perf_counter() - asked_at)
    except (TimeoutError, asyncio.IncompleteReadError):
        health_ms = None
    held = {"streams": statuses.count(b"200"), "refused": statuses.count(b"429"), "seconds": spent}
    print(json.dumps({**held, "health_ms": health_ms}), flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)


async def main(kind, port, token, *figures):
    """One kind of load."""
    if kind == "small":
        raws = [request(port, token, b"/v1/chat/completions", small_body(number)) for number in range(64)]
        print(json.dumps(await ask(port, raws, int(figures[0]), 1 << 40, float(figures[1]))))
    elif kind == "bodies":
        connections, requests, size = map(int, figures)
        raw = request(port, token, b"/v1/chat/completions", b"x" * size)
        print(json.dumps(await ask(port, [raw], connections, requests, _PATIENCE_S)))
    elif kind == "streams":
        print(json.dumps(await streams(port, token, *map(int, figures))))
    else:
        await hold(port, token, int(figures[0]))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
