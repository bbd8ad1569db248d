class HfApi:
    def list_repo_files(self, repo_id: str, *, revision: str | None = None) -> list[str]: ...

def snapshot_download(
    repo_id: str,
    *,
    revision: str | None = None,
    allow_patterns: list[str] | None = None,
    ignore_patterns: list[str] | None = None,
) -> str: ...
