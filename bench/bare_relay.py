"""How little work a relay in Python needs: the floor that `bench.endpoint` compares with. Not for use.

``bare_relay.py LISTEN_PORT BACKEND_PORT...`` on uvloop and httptools. It relays raw bytes, and parsers only find where
messages end: no errors, no tokens, no flow control, no limits, no figures, and one answer at a time per connection.
"""

import asyncio
import sys
from collections import deque

import httptools
import uvloop

HOST = "127.0.0.1"
_CUT = (b"connection", b"host", b"content-length", b"authorization", b"keep-alive")


class Backend:
    """One server and its idle connections."""

    def __init__(self, port):
        self.port = port
        self.idle = []
        self.in_flight = 0


class Upstream(asyncio.Protocol):
    """A connection to a server."""

    __slots__ = ("backend", "client", "parser", "transport")

    def __init__(self, backend):
        self.backend = backend
        self.client = None
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.client.transport.write(data)
        self.parser.feed_data(data)

    def on_message_complete(self):
        client, self.client = self.client, None
        self.backend.in_flight -= 1
        if self.parser.should_keep_alive():
            self.backend.idle.append(self)
            self.parser = httptools.HttpResponseParser(self)
        else:
            self.transport.close()
        client.answered()

    def connection_lost(self, error):
        if self in self.backend.idle:
            self.backend.idle.remove(self)
        if self.client is not None:
            self.client.transport.close()


class Client(asyncio.Protocol):
    """A connection of a client."""

    def __init__(self, relay):
        self.relay = relay
        self.busy = False
        self.waiting = deque()
        self.begin()

    def begin(self):
        self.lines, self.body, self.url = [], [], b""

    def connection_made(self, transport):
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data):
        self.parser.feed_data(data)

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        if name.lower() not in _CUT:
            self.lines.append(name + b": " + value + b"\r\n")

    def on_body(self, body):
        self.body.append(body)

    def on_message_complete(self):
        body = b"".join(self.body)
        length = b"Content-Length: %d\r\n\r\n" % len(body) if body else b"\r\n"
        start = self.parser.get_method() + b" " + self.url + b" HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer x\r\n"
        request = start + b"".join(self.lines) + length + body
        self.begin()
        if self.busy:
            self.waiting.append(request)
        else:
            self.send(request)

    def send(self, request):
        self.busy = True
        backend = min(self.relay.backends, key=lambda one: one.in_flight)
        backend.in_flight += 1
        if backend.idle:
            upstream = backend.idle.pop()
            upstream.client = self
            upstream.transport.write(request)
        else:
            self.relay.loop.create_task(self.connect(backend, request))

    async def connect(self, backend, request):
        _, upstream = await self.relay.loop.create_connection(lambda: Upstream(backend), HOST, backend.port)
        upstream.client = self
        upstream.transport.write(request)

    def answered(self):
        self.busy = False
        if self.waiting:
            self.send(self.waiting.popleft())


class Relay:
    """What all connections share."""

    def __init__(self, loop, ports):
        self.loop = loop
        self.backends = [Backend(port) for port in ports]


async def main(port, ports):
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    relay = Relay(loop, ports)
    await loop.create_server(lambda: Client(relay), HOST, port, backlog=4096)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
