"""A stand-in for the hub's tool: notes each download and fills the cache as the real one does, without a network."""

import os
from pathlib import Path

FILES = ("config.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class RepositoryNotFoundError(Exception):
    pass


class GatedRepoError(RepositoryNotFoundError):
    pass


class RevisionNotFoundError(Exception):
    pass


class LocalEntryNotFoundError(FileNotFoundError):
    pass


class HfApi:
    def list_repo_files(self, repo_id: str, *, revision: str | None = None) -> list[str]:
        if os.environ.get("HF_HUB_OFFLINE") == "1":
            raise ConnectionError("offline")
        failure = os.environ.get("STAND_IN_HUB_FAILS")
        if failure == "die":
            os._exit(3)
        if failure and failure.isdigit():
            raise OSError(int(failure), os.strerror(int(failure)))
        if failure:
            raise globals()[failure](f"the stand-in says no to {repo_id}\nsecond line")
        return [*FILES, *os.environ.get("STAND_IN_HUB_MORE", "").split()]


def snapshot_download(
    repo_id: str,
    *,
    revision: str | None = None,
    allow_patterns: list[str] | None = None,
    ignore_patterns: list[str] | None = None,
) -> str:
    """One line in the log for each call."""
    with Path(os.environ["STAND_IN_HUB_LOG"]).open("a") as log:
        log.write(f"{repo_id} {revision} {os.environ.get('SLURMD_NODENAME')} {ignore_patterns or allow_patterns}\n")
    folder = Path(os.environ["HF_HOME"]) / "hub" / f"models--{repo_id.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    for made in (folder / "blobs", folder / "refs", snapshot):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "refs" / (revision or "main")).write_text(COMMIT)
    for name in FILES[:3]:
        content = os.environ.get("STAND_IN_HUB_CONFIG", "{}") if name == "config.json" else "x" * 1000
        (folder / "blobs" / name).write_text(content)
        if not (snapshot / name).exists():
            (snapshot / name).symlink_to(f"../../blobs/{name}")
    return str(snapshot)
