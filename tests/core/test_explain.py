"""What people read about a plan leaves nothing out."""

from hypothesis import given

from core.plan.explain import explain, explain_bound
from core.plan.steps import steps_of
from core.report import counted
from tests.core.plan_cases import Case, bound_on, cases, planned


@given(cases())
def test_every_deployment_node_and_note_is_mentioned(case: Case | None) -> None:
    if case is None:
        return
    text = explain(case.plan)
    rows = [line.split() for line in text.splitlines()]
    for deployment in case.plan.deployments:
        placement = deployment.placement
        last = placement.first_slot + placement.nodes - 1
        slots = str(last) if placement.nodes == 1 else f"{placement.first_slot}-{last}"
        assert any(row[:2] == [slots, deployment.alias] for row in rows)
        assert any(row[:2] == [deployment.alias, deployment.server.model] for row in rows)
        assert any(row[:1] == [f"{deployment.alias}:"] for row in rows)
    assert all(note in text for note in case.plan.notes)
    assert f"{counted(case.plan.request.nodes, 'node')} with" in text


def test_every_step_is_a_line() -> None:
    bound = bound_on(planned([{"resources": {"nodes": 2}}, {}]).unwrap()).unwrap()
    named = [line.split()[0] for line in explain_bound(bound).splitlines()[1:]]
    assert named == [step.name for step in steps_of(bound)]
    assert len(named) == 24


def test_counts_are_words() -> None:
    assert [counted(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert "1 node with 1 GPU, for" in explain(planned([{}], 1).unwrap())
