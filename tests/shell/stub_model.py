"""A model server in this process that says one word, when it is allowed to. Small, so that tests can hold it still."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typing_extensions import override


class StubModel:
    """Answers `allowed` requests and holds all further ones until `release`."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        self.status = 200
        self.allowed = 1_000_000
        self.changed = threading.Condition()
        self.port = 0

    def admit(self, body: dict[str, Any], token: str | None) -> int:
        with self.changed:
            self.tokens.add(token)
            self.changed.wait_for(lambda: self.allowed > 0)
            self.allowed -= 1
            self.requests.append(body)
            self.changed.notify_all()
            return self.status

    def release(self) -> None:
        with self.changed:
            self.allowed = 1_000_000
            self.changed.notify_all()

    def wait_for_requests(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, timeout=60)

    def prompts(self) -> list[str]:
        return [request["messages"][-1]["content"][0]["text"] for request in self.requests]


@contextmanager
def serving() -> Iterator[StubModel]:
    model = StubModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @override
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = model.admit(body, self.headers.get("Authorization"))
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "word"}}
            usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
            answer: dict[str, Any] = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
            answer |= {"choices": [choice], "usage": usage} if status == 200 else {"error": {"message": "no"}}
            content = json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client has been killed meanwhile

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        @override
        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    model.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield model
    finally:
        model.release()
        server.shutdown()
        thread.join()
        server.server_close()
