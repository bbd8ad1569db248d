"""What our parsers make of a real Slurm's words, whole: a golden file per grant, and one for srun's words of tasks."""

from pathlib import Path

import pytest

from core.codec import canonical_json
from core.slurm.allocation import parse_allocation
from core.slurm.srun_says import read_srun_line
from tests.conftest import Golden

FACTS = Path(__file__).parents[1] / "facts" / "slurm"
GRANTS = sorted((FACTS / "grants").iterdir())


@pytest.mark.parametrize("grant", GRANTS, ids=lambda path: path.name)
def test_grants(grant: Path, golden: Golden) -> None:
    environ = dict(line.split("=", 1) for line in (grant / "env.txt").read_text().splitlines())
    outputs = [(grant / f"{name}.txt").read_text() for name in ("hostnames", "job", "version")]
    golden(grant / "parsed.json", canonical_json(parse_allocation(environ, *outputs).unwrap()).decode())


def test_grants_were_seen() -> None:
    assert {"array_first_task", "het_leader", "odd_names", "requeued"} <= {grant.name for grant in GRANTS}


def test_every_line_of_srun_about_a_task_is_understood(golden: Golden) -> None:
    lines = (FACTS / "srun_says.txt").read_text().splitlines()
    told = [(line, read_srun_line(line)) for line in lines]
    said = [f"{line}\n    {' '.join(ended.nodes)} {ended.code}" if ended else line for line, ended in told]
    golden(FACTS / "srun_says.parsed.txt", "\n".join((*said, "")))
    understood = [line for line, ended in told if ended is not None]
    assert understood == [line for line in lines if ": task " in line and "Real-time signal" not in line]
