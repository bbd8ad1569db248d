"""A stand-in for ``vllm serve`` that is there at once and answers at once, so that only the cost around it is left.

``instant_server.py --marks FILE serve MODEL --served-model-name NAME … --host H --port P [--headless] …``: other
options are ignored. Lines in FILE say when and as which process it was launched, asked for a chat and told to end:
``launched NS PID``, ``chat NS PID``, ``term NS PID``.
Standard library only, and little of it: its own start must not be what is measured.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


def main(argv: list[str]) -> None:
    """Serve until TERM, or say which vLLM this would be."""
    if "serve" not in argv:
        print("0.22.0")
        return
    marks = argv[argv.index("--marks") + 1]
    mark(marks, "launched")
    signal.signal(signal.SIGTERM, lambda number, frame: end(marks))
    if "--headless" in argv:
        while True:
            signal.pause()
    names = words_after(argv, "--served-model-name") or [argv[argv.index("serve") + 1]]
    serve(words_after(argv, "--host")[0], int(words_after(argv, "--port")[0]), names, marks)


def words_after(argv: list[str], option: str) -> list[str]:
    """The values of ``--option A B``, or of ``--option=A``."""
    for index, word in enumerate(argv):
        if word.startswith(f"{option}="):
            return [word.partition("=")[2]]
        if word == option:
            rest = argv[index + 1 :]
            end = next((place for place, later in enumerate(rest) if later.startswith("--")), len(rest))
            return rest[:end]
    return []


def mark(path: str, what: str) -> None:
    """Write down that this happens now."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, f"{what} {time.time_ns()} {os.getpid()}\n".encode())
    os.close(descriptor)


def end(path: str) -> None:
    """At once."""
    mark(path, "term")
    os._exit(0)


def serve(host: str, port: int, names: list[str], marks: str) -> None:
    """One thread answers all connections, one request after the other."""
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    watched = selectors.DefaultSelector()
    watched.register(listening, selectors.EVENT_READ)
    waiting: dict[socket.socket, bytes] = {}
    while True:
        for key, _ in watched.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if connection is listening:
                connection = listening.accept()[0]
                waiting[connection] = b""
                watched.register(connection, selectors.EVENT_READ)
            elif not read(connection, waiting, names, marks):
                watched.unregister(connection)
                del waiting[connection]
                connection.close()


def read(connection: socket.socket, waiting: dict[socket.socket, bytes], names: list[str], marks: str) -> bool:
    """Answer what is whole; False when the client is gone."""
    try:
        content = connection.recv(1 << 16)
        data = waiting[connection] + content
        while (request := first_request(data)) is not None:
            path, data = request
            if path == "/v1/chat/completions":
                mark(marks, "chat")
            body = json.dumps(answer(path, names)).encode()
            connection.sendall(HEAD.format(len(body)).encode() + body)
    except OSError:
        return False
    waiting[connection] = data
    return bool(content)


def first_request(data: bytes) -> tuple[str, bytes] | None:
    """The path of the first whole request, and the bytes behind it."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return None
    lines = head.decode("latin-1").split("\r\n")
    lengths = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
    length = int(lengths[0]) if lengths else 0
    return (lines[0].split(" ")[1], rest[length:]) if len(rest) >= length else None


def answer(path: str, names: list[str]) -> dict[str, object]:
    """The smallest that clients are content with."""
    if path == "/v1/models":
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}
    usage: dict[str, object] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    common: dict[str, object] = {"id": "1", "created": 1, "model": names[0], "usage": usage}
    choice: dict[str, object] = {"index": 0, "finish_reason": "stop"}
    if path == "/v1/chat/completions":
        message = {"role": "assistant", "content": "done"}
        return common | {"object": "chat.completion", "choices": [choice | {"message": message}]}
    return common | {"object": "text_completion", "choices": [choice | {"text": "done"}]}


if __name__ == "__main__":
    main(sys.argv[1:])
