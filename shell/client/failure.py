"""Exceptions of Data Designer → why the client failed, what to do, and whether another attempt may help."""

import errno
from typing import Literal

from core.client_spec import ClientError

_AGAIN: Literal[75] = 75
_DATA: Literal[65] = 65
_BUG: Literal[70] = 70

_SERVERS = ("ModelAPIConnectionError", "ModelTimeoutError", "ModelInternalServerError", "ModelRateLimitError")
_REQUESTS = ("ModelBadRequestError", "ModelContextWindowExceededError", "ModelUnprocessableEntityError")


def explain(error: BaseException) -> ClientError:
    """The error file for an exception that ended the work."""
    chain = _chain(error)
    hint, code = _advice(chain)
    return ClientError(
        error=type(error).__name__,
        message=" ".join(str(error).split())[:2000],
        hint=hint,
        causes=tuple(f"{type(cause).__name__}: {' '.join(str(cause).split())[:500]}" for cause in chain[1:]),
        exit_code=code,
    )


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _advice(chain: list[BaseException]) -> tuple[str, Literal[65, 70, 75]]:
    names = {type(error).__name__ for error in chain}
    said = " ".join(str(error) for error in chain)
    if "Cannot resume" in said:
        return "the dataset was begun with another config: resume with that config, or use resume: if_possible", _DATA
    if any(isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) for error in chain):
        return "make room on the file system of the run directory, then retry", _AGAIN
    if names & set(_SERVERS):
        return "the servers did not answer: look at their logs, then retry with resume", _AGAIN
    if "ModelAuthenticationError" in names or "ModelPermissionDeniedError" in names:
        return "the endpoint did not accept the token: this should not happen, please report it", _BUG
    if "ModelNotFoundError" in names:
        return "the endpoint does not know the model name: compare served_model_name with the server's log", _DATA
    if names & set(_REQUESTS):
        return "a server refused the requests: look at prompts, max_tokens and the model's context length", _DATA
    if "DataDesignerEarlyShutdownError" in names:
        return "too many requests failed: see the warnings in the client's log; retry once the cause is mended", _AGAIN
    if "DataDesignerProfilingError" in names:
        return "the rows are complete, only their statistics failed: take the profilers out and resume", _DATA
    if "DataDesignerGenerationError" in names:
        return "see the warnings in the client's log: which column failed, and why", _DATA
    return "this is a bug: the client's log has the traceback", _BUG
