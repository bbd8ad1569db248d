"""What commands of a real Slurm 22.05 printed, and what we make of it: tests/facts/slurm/submission/*.txt."""

from pathlib import Path

import pytest

from core.codec import compact_json
from core.submit.answer import Finished, read_sbatch_answer, why_not
from core.submit.sight import look
from tests.conftest import Golden

FACTS = sorted((Path(__file__).parents[1] / "facts" / "slurm" / "submission").glob("*.txt"))
NAME = "dd-x-1"
EMPTY = Finished(code=0, stdout="", stderr="")


def lines_after(word: str, text: str) -> str:
    return "".join(f"{line[len(word) + 1 :]}\n" for line in text.splitlines() if line.startswith(f"{word} "))


def meaning(text: str) -> object:
    answer = Finished(
        code=int(lines_after("exit", text)), stdout=lines_after("out", text), stderr=lines_after("err", text)
    )
    match lines_after("command", text).strip():
        case "sbatch":
            return read_sbatch_answer(answer)
        case "squeue":
            return look(answer, None, NAME)
        case "sacct":
            return look(EMPTY, answer, NAME)
        case _:
            return why_not(answer) or "done"


@pytest.mark.parametrize("fact", FACTS, ids=lambda path: path.stem)
def test_raw_output_and_its_meaning(fact: Path, golden: Golden) -> None:
    raw = "".join(f"{line}\n" for line in fact.read_text().splitlines() if not line.startswith("means "))
    golden(fact, f"{raw}means {compact_json(meaning(raw)).decode()}\n")


def test_there_are_facts_of_every_command() -> None:
    assert {fact.stem.partition("_")[0] for fact in FACTS} == {"sbatch", "squeue", "sacct", "release", "scancel"}
