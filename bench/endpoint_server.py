"""Servers that cost little, for measuring what stands before them: ``endpoint_server.py PORT...``, all in one process.

``/stream/COUNT/GAP_MS`` answers with that many chunks, one every GAP_MS; each says when it was sent (nanoseconds of the
monotonic clock, in hexadecimal). ``/hold`` answers with one chunk and then nothing more. All else gets one of 128 short
answers: their lengths differ and their date is right, so that nobody is quick who remembers the last one.
"""

import asyncio
import resource
import sys
import time
from email.utils import formatdate

import uvloop

_ANSWER = (
    b"HTTP/1.1 200 OK\r\ndate: %b\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
)
_BODIES = tuple(b'{"ok":true,"text":"' + b"x" * size + b'"}' for size in range(100, 228))
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Server(asyncio.Protocol):
    """One connection: no request before the answer to the last one."""

    answered = 0
    date = b""

    def __init__(self, loop):
        self.loop = loop
        self.head = b""
        self.left = 0

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if self.left:
            self.left -= len(data)
        else:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            self.left = self.length(end) - (len(self.head) - end - 4)
            self.head, self.path = b"", self.head[: self.head.index(b" HTTP/")].split(b" ")[1]
        if self.left == 0:
            self.answer()

    def length(self, end):
        head = self.head[:end].lower()
        at = head.find(b"content-length:")
        return int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0

    def answer(self):
        if self.path.startswith(b"/stream/"):
            self.transport.write(_STREAM)
            _, _, count, gap = self.path.split(b"/")
            self.stream(int(count), int(gap) / 1000, self.loop.time())
        elif self.path == b"/hold":
            self.transport.write(_STREAM + b"5\r\nhello\r\n")
        else:
            Server.answered += 1
            body = _BODIES[Server.answered % len(_BODIES)]
            self.transport.write(_ANSWER % (Server.date, len(body), body))

    def stream(self, count, gap, due):
        """Chunks at fixed times, so that a late one does not delay all that follow."""
        if self.transport.is_closing():
            return
        self.transport.write(b"18\r\ndata: %016x\n\n\r\n" % time.monotonic_ns())
        if count > 1:
            self.loop.call_at(due + gap, self.stream, count - 1, gap, due + gap)
        else:
            self.transport.write(b"0\r\n\r\n")


async def main(ports):
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    for port in ports:
        await loop.create_server(lambda: Server(loop), "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    while True:
        Server.date = formatdate(usegmt=True).encode()
        await asyncio.sleep(1)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    uvloop.run(main([int(port) for port in sys.argv[1:]]))
