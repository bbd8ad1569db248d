"""A client process with its start file, as tests use it."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from core.client_spec import (
    ClientError,
    ClientFiles,
    ClientSpec,
    ClientWork,
    CommandWork,
    DesignerWork,
    ModelEndpoint,
    Preparation,
    Prepared,
    Progress,
    Refused,
)
from core.codec import canonical_json
from core.config.run_config import Invocation
from core.plan.shards import shard_of
from core.result import Claim
from core.units import Alias

ROOT = Path(__file__).parents[2]
TOKEN = "secret-of-this-attempt-4711"


class World:
    """One attempt's folder. Times are generous bounds, never measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = folder / "token"
        self.token.write_text(f"{TOKEN}\n")
        self.token.chmod(0o600)
        self.spec: ClientSpec | None = None
        self.log = b""

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def files(self) -> ClientFiles:
        names = ("prepared", "progress", "claim", "error")
        return ClientFiles(**{name: f"{self.folder}/{name}.json" for name in names}, output=str(self.output))

    def endpoint(self, alias: str, port: int = 9) -> ModelEndpoint:
        url = f"http://127.0.0.1:{port}/v1"
        return ModelEndpoint(alias=Alias(alias), base_url=url, model=f"served-{alias}", token_file=str(self.token))

    def write_spec(
        self,
        work: ClientWork,
        endpoints: Sequence[ModelEndpoint],
        *,
        records: int = 4,
        shards: int = 1,
        shard: int = 0,
    ) -> None:
        self.spec = ClientSpec(
            work=work,
            endpoints=tuple(endpoints),
            shard=shard_of(records, shards, shard),
            shard_count=shards,
            total_records=records,
            files=self.files(),
        )
        (self.folder / "client.json").write_bytes(canonical_json(self.spec))

    def command(self, *argv: str, aliases: Sequence[str] = ("writer",), **shard: int) -> None:
        work = CommandWork(command=argv, folder=str(self.folder))
        self.write_spec(work, [self.endpoint(alias) for alias in aliases], **shard)

    def designer(self, config: Any, endpoints: Sequence[ModelEndpoint], *, run: Any = None, **invocation: Any) -> None:
        builder = self.folder / "builder.json"
        builder.write_text(config if isinstance(config, str) else json.dumps(config))
        shard = {name: invocation.pop(name) for name in ("shards", "shard") if name in invocation}
        records = invocation.setdefault("num_records", 4)
        given = msgspec.convert({**invocation, "run_config": json.dumps(run or {})}, Invocation)
        work = DesignerWork(builder=str(builder), base_folder=str(self.folder), invocation=given)
        self.write_spec(work, endpoints, records=records, **shard)

    def start(self, **environ: str) -> subprocess.Popen[bytes]:
        for name in ("prepared", "claim", "error"):
            (self.folder / f"{name}.json").unlink(missing_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "shell.client", "--spec", str(self.folder / "client.json")],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(self.folder), **environ},
        )

    def run(self, timeout: float = 60, **environ: str) -> int:
        """Start, say go, wait; the exit code. The log is in `log`."""
        with self.start(**environ) as client:
            assert client.stdin is not None
            try:
                client.stdin.write(b"go\n")
                client.stdin.flush()
            except BrokenPipeError:
                pass
            assert client.stdout is not None
            self.log = client.stdout.read()
            return client.wait(timeout)

    def preparation(self) -> Preparation:
        return msgspec.json.decode((self.folder / "prepared.json").read_bytes(), type=Prepared | Refused)

    def refusals(self) -> list[tuple[str, str]]:
        """Code and path of each problem."""
        prepared = self.preparation()
        assert isinstance(prepared, Refused)
        return [(problem.code, problem.path) for problem in prepared.problems]

    def hints(self) -> list[str]:
        prepared = self.preparation()
        assert isinstance(prepared, Refused)
        return [problem.hint for problem in prepared.problems]

    def progress(self) -> Progress:
        return msgspec.json.decode((self.folder / "progress.json").read_bytes(), type=Progress)

    def claim(self) -> Claim:
        return msgspec.json.decode((self.folder / "claim.json").read_bytes(), type=Claim)

    def error(self) -> ClientError:
        return msgspec.json.decode((self.folder / "error.json").read_bytes(), type=ClientError)

    def has(self, name: str) -> bool:
        return (self.folder / f"{name}.json").exists()


def read_line(client: subprocess.Popen[bytes], wanted: bytes, timeout: float = 30) -> bytes:
    """The first line of the client's log that contains `wanted`."""
    assert client.stdout is not None
    line = b""
    while select.select([client.stdout], [], [], timeout)[0]:
        byte = os.read(client.stdout.fileno(), 1)
        if not byte:
            break
        line += byte
        if byte == b"\n":
            if wanted in line:
                return line
            line = b""
    raise AssertionError(f"no line with {wanted!r}")
