"""GPUs in all their spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.problem import At, Malformed
from core.slurm.gpus import (
    GpuCount,
    GpuIndices,
    Gpus,
    GpuUuids,
    MigSlices,
    NoGpus,
    parse_gpus,
    parse_indices,
)

AT = At(source="test")


def gpu_count(gpus: Gpus) -> int:
    """How many entries, whatever they are."""
    match gpus:
        case NoGpus():
            return 0
        case GpuIndices(indices=indices):
            return len(indices)
        case GpuCount(count=count):
            return count
        case GpuUuids(uuids=uuids):
            return len(uuids)
        case MigSlices(slices=slices):
            return len(slices)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("0,1", GpuIndices(indices=(0, 1))),
        ("0-3", GpuIndices(indices=(0, 1, 2, 3))),
        ("4,6-7", GpuIndices(indices=(4, 6, 7))),
        ("gpu:a100:4", GpuCount(count=4, type="a100")),
        ("gres:gpu:4", GpuCount(count=4, type=None)),
        ("gres/gpu:h100=8", GpuCount(count=8, type="h100")),
        ("gpu", GpuCount(count=1, type=None)),
        ("gpu:a100", GpuCount(count=1, type="a100")),
        ("gpu:4(S:0-1)", GpuCount(count=4, type=None)),
        ("gpu:1g.5gb:2", GpuCount(count=2, type="1g.5gb")),
        ("gpu:fake:2(IDX:0-1,3)", GpuIndices(indices=(0, 1, 3))),
        ("gpu:a100:1(IDX:0),gpu:h100:2(IDX:2,4)", GpuIndices(indices=(0, 2, 4))),
        ("gpu:a100:1,gpu:h100:2", GpuCount(count=3, type=None)),
        ("nic:1,gpu:2", GpuCount(count=2, type=None)),
        ("nic:1", NoGpus()),
        ("gpu:0", NoGpus()),
        ("GPU-8f1c2d3e-aa,GPU-0b1c2d3e-bb", GpuUuids(uuids=("GPU-8f1c2d3e-aa", "GPU-0b1c2d3e-bb"))),
        ("MIG-1f2e", MigSlices(slices=("MIG-1f2e",))),
        (
            "MIG-GPU-8f1c2d3e/1/0,MIG-GPU-8f1c2d3e/2/0",
            MigSlices(slices=("MIG-GPU-8f1c2d3e/1/0", "MIG-GPU-8f1c2d3e/2/0")),
        ),
        *((text, NoGpus()) for text in ("", "N/A", "NoDevFiles", "-1", "(null)")),
    ],
)
def test_spellings(text: str, gpus: Gpus) -> None:
    assert parse_gpus(text, AT).unwrap() == gpus


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("2,3", 2), ("gpu:8", 8), ("GPU-aa,GPU-bb", 2), ("MIG-a,MIG-b,MIG-c", 3)]
)
def test_entries_are_counted(text: str, count: int) -> None:
    assert gpu_count(parse_gpus(text, AT).unwrap()) == count


@pytest.mark.parametrize(
    "text", ["0,0", "3-1", "0x3", "GPU-aa,MIG-b", "GPU-aa,GPU-aa", "0,GPU-aa", "gpu:2(IDX:0,0)", "gpu:(", "1,", "a b"]
)
def test_what_contradicts_itself_is_refused(text: str) -> None:
    assert isinstance(parse_gpus(text, AT).failure()[0], Malformed)


def test_indices_alone() -> None:
    assert parse_indices("0-1,3") == (0, 1, 3)
    assert parse_indices("3-1") is None


@given(st.text(alphabet="gpu:a1()IDX,-=/S.MIG ", max_size=24) | st.text(max_size=24))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = parse_gpus(text, AT)
    assert is_successful(found) or found.failure()
    assert not is_successful(found) or gpu_count(found.unwrap()) >= 0
