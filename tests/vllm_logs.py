"""The captured and reported logs of servers that died, and where each comes from."""

import csv
from pathlib import Path

import msgspec

from core.vllm.diagnose import RankLog

FOLDER = Path(__file__).parent / "facts" / "vllm_logs"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One launch. A launch of several ranks has a log for each: ``<case>.<rank>.log``."""

    name: str
    vllm: str | None
    code: int | None
    source: str

    @property
    def paths(self) -> list[Path]:
        alone = FOLDER / f"{self.name}.log"
        return [alone] if alone.exists() else sorted(FOLDER.glob(f"{self.name}.*.log"))

    @property
    def logs(self) -> tuple[RankLog, ...]:
        return tuple(
            RankLog(
                name=path.name.removeprefix(self.name).removesuffix(".log").strip("."),
                lines=tuple(path.read_text().splitlines()),
                code=self.code,
            )
            for path in self.paths
        )


def _cases() -> tuple[Case, ...]:
    with (FOLDER / "sources.tsv").open() as file:
        return tuple(
            Case(
                name=row["case"],
                vllm=row["vllm"] or None,
                code=int(row["code"]) if row["code"] else None,
                source=row["source"],
            )
            for row in csv.DictReader(file, delimiter="\t")
        )


CASES = _cases()
