"""Somebody else's server in the place of ours: healthy, with another model. Standard library only."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Foreign(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": [{"id": "another-model", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    options = dict(zip(sys.argv, sys.argv[1:], strict=False))
    given = {name: value for word in sys.argv for name, _, value in [word.partition("=")] if value} | options
    ThreadingHTTPServer((given["--host"], int(given["--port"])), Foreign).serve_forever()


if __name__ == "__main__":
    main()
