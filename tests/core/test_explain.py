"""What people read about a plan leaves nothing out."""

import json

from hypothesis import given

from core.config.located import Located
from core.config.read import read_run_file
from core.config.run_config import RunConfig
from core.outcome import Outcome, problems_of
from core.plan.explain import explain, explain_bound
from core.plan.process_env import process_environment
from core.plan.steps import lanes_on, steps_of
from core.problem import OwnedByPlanner
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


def test_what_the_author_sets_reaches_the_process_or_is_refused_or_is_said_to_be_replaced() -> None:
    for name in process_variables({}):
        authored: dict[str, object] = {"environment": {name: {"type": "literal", "value": "/authors/own"}}}
        refused = problems_of(read_with_server(authored))
        if refused:
            assert [type(problem) for problem in refused] == [OwnedByPlanner], name
            continue
        arrives = "/authors/own" in process_variables(authored)[name].split(":")
        words = f"m0: the run file's {name} is replaced: "
        assert arrives != (words in explain(planned([{"server": authored}]).unwrap())), name


def process_variables(server: dict[str, object]) -> dict[str, str]:
    """What the first process of a model gets."""
    bound = bound_on(planned([{"server": server}]).unwrap()).unwrap()
    first = lanes_on(bound, steps_of(bound)[0].name, bound.nodes[0].name)[0]
    return process_environment(bound, first, {}, "/tmp/scratch")


def read_with_server(server: dict[str, object]) -> Outcome[Located[RunConfig]]:
    document = {"schema_version": 1, "name": "case", "builder": {"source": "config.yaml"}}
    document |= {"invocation": {"num_records": 1}}
    document |= {"deployments": [{"model_alias": "m0", "model": "lab/m0", "server": server}]}
    return read_run_file("run.json", json.dumps(document).encode())
