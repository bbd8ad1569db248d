"""Answers that the endpoint gives by itself: its health, its figures, and refusals in the form of the OpenAI API."""

from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from core.admission.decide import is_serving
from core.admission.decision import Reject
from shell.endpoint.request_head import OWN_PATHS, RequestHead

if TYPE_CHECKING:
    from shell.endpoint.endpoint import Endpoint

HEALTH, METRICS = OWN_PATHS

_WORDS = {
    "unauthorized": "a valid bearer token is needed",
    "draining": "the endpoint is about to stop",
    "full": "all servers are full: come back later",
    "down": "no server is in rotation: come back later",
}


def own_answer(endpoint: "Endpoint", head: RequestHead) -> bytes | None:
    """The answer to a question about the endpoint itself; None for what is to be forwarded or refused."""
    if head.path == HEALTH and head.method in (b"GET", b"HEAD"):
        serving = is_serving(endpoint.state, endpoint.now())
        return _message(200 if serving else 503, b"text/plain", b"", b"", head)
    if head.path == METRICS and head.method in (b"GET", b"HEAD") and head.is_authorized:
        return _message(200, b"text/plain; version=0.0.4; charset=utf-8", endpoint.metrics_text().encode(), b"", head)
    return None


def refusal(decision: Reject, head: RequestHead | None) -> bytes:
    """A refusal in words."""
    extra = b"" if decision.retry_after_seconds is None else b"Retry-After: %d\r\n" % decision.retry_after_seconds
    if decision.status == 401:
        extra = b"WWW-Authenticate: Bearer\r\n"
    return failure(decision.status, _WORDS[decision.reason], head, extra)


def failure(status: int, message: str, head: RequestHead | None, extra: bytes = b"") -> bytes:
    """An error as the OpenAI API words it. `head` is None when the request could not be read."""
    error = {"message": message, "type": _type_of(status), "code": status}
    return _message(status, b"application/json", msgspec.json.encode({"error": error}), extra, head)


def _type_of(status: int) -> str:
    """As vLLM names its errors."""
    return HTTPStatus(status).phrase.title().replace(" ", "") + "Error"


def _message(status: int, content_type: bytes, body: bytes, extra: bytes, head: RequestHead | None) -> bytes:
    line = b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())
    fields = b"Content-Type: %b\r\nContent-Length: %d\r\n" % (content_type, len(body))
    return line + extra + fields + b"\r\n" + (b"" if head is not None and head.method == b"HEAD" else body)
