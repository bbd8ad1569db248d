"""Steps with GPUs on one node, in releases where overlapping steps share CPUs only."""

import pytest

from core.plan.sharing import sharing_problems
from core.problem import At
from core.report import report
from core.slurm.versions import SlurmVersion, parse_slurm_version
from tests.core.test_submit_request import plan


def version(text: str) -> SlurmVersion:
    return parse_slurm_version(text, At(source="srun")).unwrap()


@pytest.mark.parametrize("release", ["20.11.9", "21.08.8"])
def test_lanes_of_one_model_on_a_node(release: str) -> None:
    two = plan({"topology": {"tensor_parallel": 4}})
    (problem,) = sharing_problems(two, version(release))
    assert "two GPU steps" in report(problem).message
    assert not list(sharing_problems(two, version("22.05.0")))
    assert not list(sharing_problems(two, None))


def test_two_models_on_one_node() -> None:
    half = {"resources": {"shared_node": "both", "gpus_per_node": 4}, "topology": {"tensor_parallel": 4}}
    shared = plan({"model_alias": "a", **half}, {"model_alias": "b", **half})
    (problem,) = sharing_problems(shared, version("21.08.8"))
    assert "(a, b)" in report(problem).message


def test_one_replica_per_node_is_fine() -> None:
    alone = plan({"topology": {"tensor_parallel": 8}, "resources": {"nodes": 2}})
    assert not list(sharing_problems(alone, version("20.11.9")))


def test_without_gres_nothing_is_held() -> None:
    visible = plan({"topology": {"tensor_parallel": 4}}, site={"gpu_request_mode": "visible"})
    assert not list(sharing_problems(visible, version("20.11.9")))
