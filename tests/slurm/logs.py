"""What the daemons of a cluster logged."""

from collections.abc import Mapping
from pathlib import Path


def last_lines(folder: Path, since: Mapping[str, int]) -> str:
    """The end of what every log of the cluster in `folder` got after `since`, an earlier `log_sizes`."""
    new = {path.name: path.read_bytes()[since.get(path.name, 0) :] for path in _logs(folder)}
    tails = {name: text.decode(errors="replace").splitlines()[-15:] for name, text in new.items()}
    return "\n".join(line for name, lines in tails.items() if lines for line in (f"--- {name}", *lines))


def log_sizes(folder: Path) -> dict[str, int]:
    """How long every log is now."""
    return {path.name: path.stat().st_size for path in _logs(folder)}


def _logs(folder: Path) -> list[Path]:
    """All but those of munge and MariaDB."""
    return sorted(path for path in (folder / "log").glob("[!m]*") if path.is_file())
