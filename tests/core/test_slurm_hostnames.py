"""Lists of nodes: agreement with real scontrol, row by row, and laws."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.problem import At, Malformed
from core.slurm.hostnames import compress_hostlist, expand_hostlist, in_natural_order, is_node_name, same_host
from core.units import NodeName

AT = At(source="test")
FACTS = Path(__file__).parents[1] / "facts" / "slurm" / "hostlists.tsv"
with FACTS.open(newline="") as table:
    ROWS = [
        {key: value.replace("\\n", "\n").replace("\\t", "\t") for key, value in row.items()}
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
    ]
EXPANDED = [row for row in ROWS if row["command"] == "show hostnames"]
COMPRESSED = [
    row for row in ROWS if row["command"] == "show hostlist" and all(map(is_node_name, row["input"].split(",")))
]

WE_REFUSE = {
    # 22.05 makes something of these; Slurm never writes them into SLURM_JOB_NODELIST.
    "n[1": "the bracket is not closed",
    "n1]": "the bracket is not opened",
    "n[1-]": "half a range",
    "n[1-2": "the bracket is not closed",
    "n[1,2": "the bracket is not closed",
    "n[1 - 2]": "blanks make 22.05 pad with zeros",
    "n[1-2] ": "a blank",
    "n1 n2": "a blank between names, as in 'None assigned'",
    "n1\nn2": "a line break between names",
    ",n1": "an empty entry",
    "n1,": "an empty entry",
    "n1,,n2": "an empty entry",
    "(null)": "no name",
    "None assigned": "no names",
    "n[18446744073709551615-18446744073709551616]": "overflows in 22.05",
    "é[1-2]": "no name that DNS knows",
    "n{1..3}": "no name that DNS knows",
    "n*": "no name that DNS knows",
    "/no/such/file": "a file",
    "/shared/lab/home/hostfile.txt": "a file",
    "n[1-2]x[3-4]y[5-6]": "three ranges, in an order of 22.05's own",
    "c[1-2]n[01-02]g[0-1]": "three ranges, in an order of 22.05's own",
}


@pytest.mark.parametrize("row", EXPANDED, ids=lambda row: repr(row["input"]))
def test_expansion_agrees_with_scontrol_or_is_a_listed_refusal(row: dict[str, str]) -> None:
    found = expand_hostlist(row["input"], AT)
    theirs = tuple(row["stdout"].split())
    if row["input"] in WE_REFUSE or not theirs:
        assert not is_successful(found)
    else:
        assert found.unwrap() == theirs


def test_every_listed_refusal_is_a_row_that_scontrol_expands() -> None:
    assert set(WE_REFUSE) <= {row["input"] for row in EXPANDED if row["stdout"]}


@pytest.mark.parametrize("row", COMPRESSED, ids=lambda row: repr(row["input"]))
def test_compression_agrees_with_scontrol(row: dict[str, str]) -> None:
    assert compress_hostlist(row["input"].split(",")) == row["stdout"].strip()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "n,rack[1-2]node[01-02,10]",
            "n rack1node01 rack1node02 rack1node10 rack2node01 rack2node02 rack2node10",
        ),
        ("GPU-A1", "GPU-A1"),
        ("n3,n1", "n3 n1"),
    ],
)
def test_zeros_case_and_order_are_kept(text: str, names: str) -> None:
    assert expand_hostlist(text, AT).unwrap() == tuple(names.split())


@pytest.mark.parametrize(
    "text", ["n[1-65536]x[1-2]", "n[2-1]", "a[1-2],b[1-65536]", "-n1", "n-", "n1/x", "n[1],n[", ".."]
)
def test_what_is_too_long_or_no_name_is_refused(text: str) -> None:
    assert isinstance(expand_hostlist(text, AT).failure()[0], Malformed)


def test_the_longest_list_that_slurm_takes_is_taken() -> None:
    assert len(expand_hostlist("n[1-65536]", AT).unwrap()) == 65_536


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpu-2", "gpu-2.fox", True),
        ("GPU-A1", "gpu-a1.site.example.", True),
        ("gpu-2.fox", "gpu-2.owl", False),
        ("gpu-2", "gpu-20", False),
        ("10.0.0.1", "10", False),
        ("10.0.0.1", "10.0.0.1", True),
    ],
)
def test_dns_names_fold_case_and_may_be_short(one: str, other: str, same: bool) -> None:
    assert same_host(one, other) is same
    assert same_host(other, one) is same


NAMES = st.from_regex(r"[a-cA-B]{1,2}(-[0-9]{1,2}[xy])?[0-9]{0,4}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=30))
def test_compressing_and_expanding_gives_the_same_list(names: list[str]) -> None:
    assert expand_hostlist(compress_hostlist(names), AT).unwrap() == tuple(names)


@given(st.lists(st.integers(0, 12), min_size=1, unique=True))
def test_runs_of_numbers_are_folded(numbers: list[int]) -> None:
    ordered = in_natural_order([NodeName(f"n{number}") for number in numbers])
    runs = sum(number - 1 not in numbers for number in numbers)
    assert compress_hostlist(ordered).count(",") + 1 == runs


@given(st.text(alphabet="n1[]-, 0a.\n", max_size=20) | st.text(max_size=20))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    found = expand_hostlist(text, AT)
    assert is_successful(found) or found.failure()
    assert not is_successful(found) or all(map(is_node_name, found.unwrap()))
