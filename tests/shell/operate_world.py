"""A run that was submitted to stand-ins for Slurm's commands, with attempts and winners written by tests."""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from core.codec import canonical_json
from core.layout import RunPaths
from core.result import Claim, ClaimedColumn, ClaimedFile
from core.supervise.rules import attempt_state, exit_code
from core.supervise.verdict import Completed, Verdict
from shell import bundle
from shell.attempt.attempts import AttemptRecord, new_attempt, write_record
from shell.attempt.results import declare_winner
from shell.client.files import observe
from shell.client.tables import columns_of, rows_of
from shell.commands import submit as submit_command
from shell.store import write_atomic
from tests.shell.test_submit_command import IMPATIENT, Said, Site

_BY_ID = """#!/bin/sh
case " $* " in *" --jobs="*) ;; *) exec {command}.by-name "$@";; esac
echo "{command} $*" >>{folder}/calls
if [ -s {folder}/{command}.error ]; then cat {folder}/{command}.error >&2; exit 1; fi
cat {folder}/{command}.rows
"""


class World:
    """A run of three shards as job 41, unless the run file is changed before it is submitted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_HF_TOKEN", "hush-hush")
        monkeypatch.setattr(submit_command, "PATIENCE", IMPATIENT)
        monkeypatch.setattr(bundle, "write_bundle", lambda folder: f"{folder}/bundle.zip")
        self.site = Site(folder)
        self.slurm = self.site.slurm
        for command in ("squeue", "sacct"):
            script = self.slurm.bin / command
            script.rename(self.slurm.bin / f"{command}.by-name")
            text = _BY_ID.format(command=command, folder=self.slurm.folder)
            script.write_text(text.replace(f"exec {command}", f"exec {self.slurm.bin}/{command}"))
            script.chmod(0o755)
            (self.slurm.folder / f"{command}.rows").write_text("")
        self.root = Path()

    def submit(self) -> None:
        assert self.site.submit().code == 0
        (self.root,) = self.site.runs()

    @property
    def paths(self) -> RunPaths:
        return RunPaths(root=str(self.root))

    def name(self, submission: int = 1) -> str:
        return str(json.loads(Path(self.paths.submission(submission).intent).read_text())["job_name"])

    def queue(self, *rows: str, submission: int = 1) -> None:
        """Rows without the name: ``id|array|index|STATE|Reason|nodes``."""
        self._rows("squeue", rows, submission)

    def accounting(self, *rows: str, submission: int = 1) -> None:
        """Rows without the name: ``id|array_index|STATE|code|derived|submit|start|end|nodes``."""
        self._rows("sacct", rows, submission)

    def _rows(self, command: str, rows: Sequence[str], submission: int) -> None:
        lines = [f"{row}|{self.name(submission)}\n" for row in rows]
        (self.slurm.folder / f"{command}.rows").write_text("".join(lines))

    def gone(self, seconds: float) -> None:
        """Let everything that is missing in the queue have been missing for so long."""
        path = Path(self.paths.absences)
        told = json.loads(path.read_text())
        since = int((time.monotonic() - seconds) * 1000)
        path.write_text(json.dumps(told | {"missing": [one | {"since_ms": since} for one in told["missing"]]}))

    def attempt(
        self,
        shard: int,
        verdict: Verdict | None,
        job_id: str = "42",
        files: Mapping[str, str | bytes] | None = None,
        said: str = "",
    ) -> int:
        """An attempt with this end, None for one that was killed; with files it wins."""
        number, paths = new_attempt(self.paths, shard)
        record = AttemptRecord(
            run_id=self.root.name,
            shard=shard,
            number=number,
            job_id=job_id,
            nodes=("n1",),
            started_unix_ms=time.time_ns() // 1_000_000,
        )
        if verdict is not None:
            record = msgspec.structs.replace(
                record,
                ended_unix_ms=record.started_unix_ms + 1,
                state=attempt_state(verdict),
                exit_code=exit_code(verdict),
                cause=msgspec.Raw(msgspec.json.encode(verdict)),
                story=("    0.1 s  began", f"    0.2 s  {said}"),
            )
        write_record(paths, record)
        if files is not None:
            self._result(shard, number, files)
        return number

    def won(self, shard: int, files: Mapping[str, str | bytes]) -> int:
        return self.attempt(shard, Completed(), files=files)

    def _result(self, shard: int, number: int, files: Mapping[str, str | bytes]) -> None:
        paths = self.paths.attempt(shard, number)
        for name, content in files.items():
            path = Path(paths.output) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        whole = [os.path.join(paths.output, name) for name in files]
        seen = observe(paths.output, files)
        claimed = tuple(
            ClaimedFile(path=one.path, bytes=one.bytes, sha256=one.sha256, rows=rows_of(path))
            for one, path in zip(seen, whole, strict=True)
        )
        columns: tuple[ClaimedColumn, ...] = columns_of(whole)
        rows = sum(one.rows or 0 for one in claimed)
        claim = Claim(
            files=claimed, columns=columns, records=rows, records_wanted=rows, resumed=None, made_with="a test"
        )
        write_atomic(paths.result, canonical_json(claim))
        declare_winner(self.paths, shard, number)

    def say(self, command: str, *words: str) -> Said:
        return Said(command, str(self.root), *words)


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path, monkeypatch)
    made.submit()
    return made
