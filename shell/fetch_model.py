"""Fetching one model of the hub into the cache, by the tool that vLLM itself uses: ``python -m shell.fetch_model``.

Runs in the interpreter that runs vLLM: standard library, msgspec and huggingface_hub only. The last line that it prints
is for people; what other programs read is the answer file.
"""

import errno
import json
import os
import sys
from collections.abc import Iterator, Sequence

import msgspec

from core.fetch_answer import FetchAnswer, Fetched, FetchFailed, FetchFailure
from shell.store import write_atomic

USAGE = "usage: python -m shell.fetch_model MODEL REVISION ANSWER\n\nREVISION is '-' for the hub's default."
_CAUSES: tuple[tuple[str, FetchFailure], ...] = (
    ("GatedRepoError", "gated"),
    ("RevisionNotFoundError", "no-revision"),
    ("RepositoryNotFoundError", "unknown"),
    ("HFValidationError", "unknown"),
    ("OfflineModeIsEnabled", "unreachable"),
    ("LocalEntryNotFoundError", "unreachable"),
    ("IncompleteSnapshotError", "unreachable"),
    ("ConnectError", "unreachable"),
    ("ConnectionError", "unreachable"),
    ("TimeoutException", "unreachable"),
    ("Timeout", "unreachable"),
)
"""Names of exceptions, since their modules differ between releases; the first that fits counts."""
_ERRNOS: dict[int, FetchFailure] = {
    errno.ENOSPC: "no-space",
    errno.EDQUOT: "no-space",
    errno.EACCES: "not-writable",
    errno.EPERM: "not-writable",
    errno.EROFS: "not-writable",
}
_OTHER_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.gguf", "*.tflite")


def main(words: Sequence[str]) -> int:
    """0 when the model is in the cache, 69 when it is not."""
    if len(words) != 3:
        print(USAGE, file=sys.stderr)
        return os.EX_USAGE
    model, revision, answer = words
    said = fetch(model, None if revision == "-" else revision)
    write_atomic(answer, msgspec.json.encode(said))
    if isinstance(said, FetchFailed):
        print(f"{model}: {said.cause}: {said.detail}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    print(f"{model} is in {said.path}")
    return os.EX_OK


def fetch(model: str, revision: str | None) -> FetchAnswer:
    """Download what is missing of it, and of repositories that its own code comes from."""
    try:
        import huggingface_hub
    except ImportError as error:
        return FetchFailed(cause="no-tool", detail=f"{sys.executable}: {error}")
    try:
        names = huggingface_hub.HfApi().list_repo_files(model, revision=revision)
        path = huggingface_hub.snapshot_download(model, revision=revision, ignore_patterns=unneeded(names))
        for other in sorted(set(code_of_others(path))):
            huggingface_hub.snapshot_download(other, allow_patterns=["*.py", "*.json"])
    except Exception as error:
        return FetchFailed(cause=cause_of(error), detail=_words(error))
    return Fetched(path=str(path))


def unneeded(names: Sequence[str]) -> list[str]:
    """Patterns of files that vLLM does not read: other forms of weights where there are safetensors."""
    safe = any(name.endswith(".safetensors") and "/" not in name for name in names)
    return ["original/*", *_OTHER_WEIGHTS] if safe else ["original/*"]


def code_of_others(folder: str) -> Iterator[str]:
    """Repositories that hold code which the model's own files refer to, as ``org/name--module.Class``."""
    for name in ("config.json", "tokenizer_config.json"):
        try:
            with open(f"{folder}/{name}", "rb") as file:
                found = json.load(file)
        except (OSError, ValueError):
            continue
        listed = found.get("auto_map") if isinstance(found, dict) else None
        for entry in listed.values() if isinstance(listed, dict) else ():
            for word in entry if isinstance(entry, list) else [entry]:
                if isinstance(word, str) and "--" in word:
                    yield word.partition("--")[0]


def cause_of(error: BaseException) -> FetchFailure:
    """Why it failed, from the exception or one that led to it."""
    chain = list(_chain(error))
    for name, cause in _CAUSES:
        if any(name in (kind.__name__ for kind in type(one).__mro__) for one in chain):
            return cause
    numbers = (one.errno for one in chain if isinstance(one, OSError))
    return next((_ERRNOS[number] for number in numbers if number in _ERRNOS), "failed")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:400]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
