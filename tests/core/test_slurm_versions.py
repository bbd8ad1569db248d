"""Releases of Slurm and what they can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.problem import At, VersionUnfit
from core.report import report
from core.slurm.versions import NEWEST, OLDEST, Feature, SlurmVersion, parse_slurm_version

AT = At(source="srun --version")


def version(text: str) -> SlurmVersion:
    return parse_slurm_version(text, AT).unwrap()


@pytest.mark.parametrize(
    ("text", "year", "month", "micro"),
    [
        ("slurm 22.05.8", 22, 5, 8),
        ("slurm-wlm 22.05.8\n", 22, 5, 8),
        ("23.02.3-1", 23, 2, 3),
        ("slurm 24.05.0-0rc1", 24, 5, 0),
        ("23.11", 23, 11, 0),
        ("20.11.0", 20, 11, 0),
        ("27.02.1", 27, 2, 1),
    ],
)
def test_spellings(text: str, year: int, month: int, micro: int) -> None:
    assert version(text) == SlurmVersion(year=year, month=month, micro=micro)


@pytest.mark.parametrize("text", ["slurm 20.02.7", "19.05", "20.10.9"])
def test_too_old_is_refused_in_words(text: str) -> None:
    (problem,) = parse_slurm_version(text, AT).failure()
    assert isinstance(problem, VersionUnfit)
    assert "expected Slurm 20.11 or newer" in report(problem).message


@pytest.mark.parametrize(
    ("feature", "without", "having"),
    [
        ("overlap-shares-gres", "21.08.8", "22.05.0"),
        ("cpus-per-task-inherited", "22.05.0", "21.08.8"),
        ("cpus-per-task-inherited", "23.02.7", "23.11.0"),
        ("gres-none", "23.02.4", "23.02.5"),
        ("gres-none", "23.02.0", "22.05.9"),
        ("export-nil", "23.02.2", "23.02.3"),
        ("sacct-array", "22.05.11", "23.02.0"),
        ("state-list-in-json", "23.02.7", "23.11.0"),
        ("expand-patterns", "23.11.9", "24.05.0"),
        ("wait-for-children", "24.11.5", "25.05.0"),
        ("term-on-bad-exit", "25.11.9", "26.05.0"),
    ],
)
def test_features(feature: Feature, without: str, having: str) -> None:
    assert not version(without).has(feature)
    assert version(having).has(feature)


def test_what_is_newer_than_the_table_is_as_the_newest() -> None:
    assert version("31.05").has("term-on-bad-exit")
    assert NEWEST.has("gres-none")


@given(st.text(max_size=20) | st.from_regex(r"slurm [0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = parse_slurm_version(text, AT)
    assert not is_successful(found) or found.unwrap() >= OLDEST
