"""A budget of GPUs is kept, shared by all models, or refused with a number that suffices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.outcome import problems_of
from core.plan.explain import explain
from core.plan.model import RunPlan
from core.plan.topology import gpus_on_slots, replicas_of
from core.problem import BudgetUnfit
from tests.core.plan_cases import planned

MODELS = st.lists(
    st.fixed_dictionaries(
        {"tensor_parallel": st.sampled_from([1, 2, 3, 4, 6, 8])},
        optional={"pipeline_parallel": st.sampled_from([1, 2]), "nodes_per_replica": st.sampled_from([1, 2])},
    ),
    min_size=1,
    max_size=4,
)
NODES = st.sampled_from([1, 2, 4, 8])


def gpus_used(plan: RunPlan) -> int:
    placements = [deployment.placement for deployment in plan.deployments]
    have = gpus_on_slots(placements)
    return sum(len(r.slots) * len(r.gpus) for placement in placements for r in replicas_of(placement, have))


def assert_keeps(plan: RunPlan, budget: int) -> None:
    assert 0 < gpus_used(plan) <= budget
    assert gpus_used(plan) <= plan.request.nodes * (plan.request.gpus_per_node or 0) <= budget, "asked of Slurm"
    have = gpus_on_slots([deployment.placement for deployment in plan.deployments])
    for deployment in plan.deployments:
        assert list(replicas_of(deployment.placement, have)), f"{deployment.alias} has no replica"


@given(MODELS, st.integers(1, 80), NODES)
def test_a_budget_is_kept_or_refused_with_a_number_that_suffices(
    models: list[dict[str, object]], budget: int, gpus: int
) -> None:
    deployments: list[dict[str, object]] = [{"topology": topology} for topology in models]
    outcome = planned(deployments, gpus, gpu_budget=budget)
    if is_successful(outcome):
        assert_keeps(outcome.unwrap(), budget)
        return
    for problem in problems_of(outcome):
        if isinstance(problem, BudgetUnfit):
            assert problem.needed > budget
            again = planned(deployments, gpus, gpu_budget=problem.needed)
            assert not any(isinstance(other, BudgetUnfit) for other in problems_of(again))
            if is_successful(again):
                assert_keeps(again.unwrap(), problem.needed)


def test_more_budget_never_means_fewer_gpus_used_by_whole_nodes() -> None:
    used = [gpus_used(planned([{}, {}], 4, gpu_budget=budget).unwrap()) for budget in range(8, 40, 4)]
    assert used == sorted(used)
    assert used[-1] == 36


def test_gpus_that_nobody_counted_cannot_be_budgeted() -> None:
    (problem,) = problems_of(planned([{}], "auto", gpu_budget=8))
    assert isinstance(problem, BudgetUnfit)


@given(MODELS, st.integers(1, 64))
def test_a_budget_is_explained(models: list[dict[str, object]], budget: int) -> None:
    outcome = planned([{"topology": topology} for topology in models], 8, gpu_budget=budget)
    if is_successful(outcome):
        assert "budget: " in explain(outcome.unwrap())


@pytest.mark.parametrize("budget", [8, 24])
def test_a_size_that_is_raised_is_said(budget: int) -> None:
    plan = planned([{"topology": {"tensor_parallel": size}} for size in (2, 3)], gpu_budget=budget).unwrap()
    assert [deployment.placement.parallel.tensor for deployment in plan.deployments] == [2, 4]
    (note,) = (note for note in plan.notes if "raised" in note)
    assert "tensor_parallel of m1 is raised from 3 to 4" in note
