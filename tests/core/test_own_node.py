"""Slurm's spelling decides; DNS spelling helps where it is unambiguous."""

import pytest

from core.plan.own_node import matching_nodes
from core.units import NodeName


@pytest.mark.parametrize(
    ("names", "own", "found"),
    [
        (("c1", "c2"), "c2", ("c2",)),
        (("C1", "c1"), "c1", ("c1",)),
        (("C1", "c1"), "C1", ("C1",)),
        (("Compute-001",), "compute-001", ("Compute-001",)),
        (("rack1-node003",), "rack1-node003.cluster.example", ("rack1-node003",)),
        (("gpu-a.cluster.example",), "GPU-A", ("gpu-a.cluster.example",)),
        (("gpu-a.one", "gpu-a.two"), "gpu-a.TWO", ("gpu-a.two",)),
        (("gpu-a.one", "gpu-a.two"), "gpu-a", ("gpu-a.one", "gpu-a.two")),
        (("N1", "n1"), "n1.example", ("N1", "n1")),
        (("c1", "c10"), "c", ()),
        (("c1",), "c01", ()),
        ((), "c1", ()),
    ],
)
def test_matching_nodes(names: tuple[NodeName, ...], own: str, found: tuple[NodeName, ...]) -> None:
    assert matching_nodes(names, own) == found
