"""What a rehearsal demands of nodes: all but what a machine without GPUs, models and vLLM need not have."""

from typing import Any

import pytest

from core.outcome import problems_of
from core.plan.bind import bind
from core.plan.hosts import choose_addresses
from core.plan.judge import Rehearsal, facts_request
from core.problem import DevicesTooFew, LimitTooLow, NoUsableAddress, Problem
from tests.core.plan_cases import ATTEMPT, planned
from tests.nodes import node

STAND_IN = Rehearsal(executable=("stand-in",))
TWO_NODES: dict[str, object] = {"resources": {"nodes": 2}, "topology": {"tensor_parallel": 8}}
ONE_LOOPBACK = [{"interface": "lo", "address": "127.0.0.1"}]


def judged(rehearsal: Rehearsal | None = STAND_IN, interface: str | None = None, **second: Any) -> list[Problem]:
    """Problems of two nodes, of which the second is different."""
    plan = planned([TWO_NODES], 8, {"network": {"interface": interface}}).unwrap()
    facts = (node("n0", 1), node("n1", 2, **second))
    return list(problems_of(bind(plan, tuple(fact.node for fact in facts), facts, ATTEMPT, "/b", rehearsal)))


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ({"nofile_hard": 1024}, LimitTooLow),
        ({"gpus": 4}, DevicesTooFew),
        ({"addresses": ONE_LOOPBACK}, NoUsableAddress),
    ],
)
def test_what_every_machine_must_have_is_judged(second: dict[str, Any], kind: type[Problem]) -> None:
    (problem,) = judged(**second)
    assert (type(problem), problem.at.source) == (kind, "node n1")


def test_a_small_dev_shm_is_no_problem_for_the_stand_in() -> None:
    assert judged(shm_mib=64) == []
    (problem,) = judged(rehearsal=None, shm_mib=64)
    assert isinstance(problem, LimitTooLow)


def test_models_and_vllm_are_not_asked_for() -> None:
    request = facts_request(planned([{"model": "/models/m"}]).unwrap(), STAND_IN, "/facts")
    assert (request.paths, request.executables, request.ask_vllm_version) == ((), (), False)


def test_simulated_nodes_need_no_interface_and_keep_apart() -> None:
    facts = tuple(
        node(f"sim0{i}", addresses=[{"interface": "lo", "address": f"127.0.1.{i}"}], vllm_version=None) for i in (1, 2)
    )
    assert [address and address.address for address in choose_addresses(facts, "ib0")] == ["127.0.1.1", "127.0.1.2"]
    plan = planned([TWO_NODES], 8, {"network": {"interface": "ib0"}}).unwrap()
    bound = bind(plan, tuple(fact.node for fact in facts), facts, ATTEMPT, "/b", STAND_IN).unwrap()
    assert [where.address for where in bound.nodes] == ["127.0.1.1", "127.0.1.2"]


@pytest.mark.parametrize("extra", [[], [{"interface": "lo", "address": "127.0.1.7"}]])
def test_a_real_node_without_the_interface_is_told(extra: list[dict[str, str]]) -> None:
    (problem,) = judged(interface="ib0", addresses=[*ONE_LOOPBACK, *extra])
    assert (type(problem), problem.at.source) == (NoUsableAddress, "node n1")
