"""Warnings say what will probably go wrong, once per deployment, with the arithmetic."""

import pytest

from core.config.read import read_profile_catalog
from core.outcome import problems_of
from core.plan.advice import CacheLost, SlowLoad, advice, advice_words
from core.plan.facts import NodeFacts
from core.plan.model import RunPlan
from core.problem import Malformed
from tests.core.plan_cases import planned
from tests.nodes import node

GB = 10**9
PATH = "/models/large"


def plan_of(*deployments: dict[str, object], **site: object) -> RunPlan:
    return planned(list(deployments), 8, site).unwrap()


def of_path(timeout: str, nodes: int = 1) -> dict[str, object]:
    shape = {"topology": {"tensor_parallel": 8}, "resources": {"nodes": nodes}}
    return {"model": PATH, "server": {"startup_timeout": timeout, "distributed_init_timeout": "1m"}, **shape}


def weighing(index: int, **sizes: int | None) -> NodeFacts:
    paths = [
        {"path": f"/models/{name}", "kind": "directory", "state": "fine", "weight_bytes": size}
        for name, size in sizes.items()
    ]
    return node(f"n{index}", index, paths=paths)


@pytest.mark.parametrize(
    ("size", "rate", "timeout", "warned"),
    [
        (700 * GB, "1G", "699s", True),
        (700 * GB, "1G", "700s", False),
        (700 * GB, "1G", "15m", False),
        (700 * GB, "2G", "349s", True),
        (700 * GB, "2G", "350s", False),
        (700 * GB, "500M", "1399s", True),
        (700 * GB + 1, "1G", "700s", True),
        (None, "1G", "60s", False),
    ],
)
def test_8_1_a_load_that_cannot_be_done_in_time(size: int | None, rate: str, timeout: str, warned: bool) -> None:
    found = advice(plan_of(of_path(timeout), storage_read_rate=rate), (weighing(0, large=size),))
    assert [type(said) for said in found] == [SlowLoad] * warned


def test_the_words_have_the_arithmetic_and_what_to_do() -> None:
    said = advice(plan_of(of_path("10m")), (weighing(0, large=700 * GB),))
    assert advice_words(said[0]) == (
        "m0: reading the model on n0 may take longer than startup_timeout: 700 GB at 1 GB/s = 700 s > 600 s; "
        "raise server.startup_timeout, or set storage_read_rate of the profile if storage is faster"
    )


def test_once_per_deployment_with_the_worst_node() -> None:
    facts = (weighing(0, large=700 * GB), weighing(1, large=900 * GB), weighing(2, large=None))
    (said,) = advice(plan_of(of_path("10m", nodes=3)), facts)
    assert isinstance(said, SlowLoad)
    assert (said.node, said.weight_bytes) == ("n1", 900 * GB)


def test_servers_of_one_model_on_a_node_read_it_once() -> None:
    eight = {**of_path("10m"), "topology": {"tensor_parallel": 1}}
    assert advice(plan_of(eight), (weighing(0, large=500 * GB),)) == ()


def test_different_models_on_a_node_share_its_rate() -> None:
    share = {"resources": {"shared_node": "s", "gpus_per_node": 4}, "topology": {"tensor_parallel": 4}}
    both = ({**of_path("10m"), **share}, {**of_path("10m"), **share, "model": "/models/other"})
    found = advice(plan_of(*both), (weighing(0, large=400 * GB, other=300 * GB),))
    assert [(said.alias, said.models, said.weight_bytes) for said in found if isinstance(said, SlowLoad)] == [
        ("m0", 2, 700 * GB),
        ("m1", 2, 700 * GB),
    ]
    assert "the 2 models" in advice_words(found[0])


def test_only_models_of_the_deployment_s_own_nodes_count() -> None:
    two = (of_path("10m"), {**of_path("10m"), "model": "/models/other"})
    facts = tuple(weighing(index, large=400 * GB, other=900 * GB) for index in (0, 1))
    assert [said.alias for said in advice(plan_of(*two), facts)] == ["m1"]


def test_a_model_in_the_cache_of_the_hub_has_a_size_too() -> None:
    fact = {
        "alias": "m0",
        "model": "lab/m0",
        "cache": "/hub",
        "place": "p",
        "filesystem": "nfs",
        "whole": True,
        "offline": False,
        "weight_bytes": 700 * GB,
    }
    hub = {**of_path("10m"), "model": "lab/m0"}
    assert [type(said) for said in advice(plan_of(hub), (node("n0", hub=[fact]),))] == [SlowLoad]


def test_a_cache_inside_the_container_is_told_once() -> None:
    fact = {
        "alias": "m0",
        "model": "lab/m0",
        "cache": "/home/vllm/.cache/huggingface/hub",
        "place": "p",
        "filesystem": "overlay",
        "whole": False,
        "offline": False,
    }
    inside: dict[str, object] = {
        "model": "lab/m0",
        "server": {"image": {"path": "/images/vllm.sqsh"}},
        "resources": {"nodes": 2},
    }
    facts = tuple(node(f"n{index}", index, hub=[fact]) for index in (0, 1))
    (said,) = advice(plan_of(inside), facts)
    assert isinstance(said, CacheLost)
    assert "/home/vllm/.cache/huggingface/hub, is inside the container" in advice_words(said)
    assert advice(plan_of({**inside, "server": {}}), facts) == ()


@pytest.mark.parametrize("rate", ["fast", "1", "0G", "1.5G", "1Gi", "-1G"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    catalog = f'schema_version: 1\nclusters: {{c: {{workspace_root: /w, storage_read_rate: "{rate}"}}}}\n'
    (problem,) = problems_of(read_profile_catalog("profiles.yaml", catalog.encode()))
    assert isinstance(problem, Malformed)
    assert problem.expected == "bytes per second such as 500M or 2G"
    assert problem.at.path == "clusters.c.storage_read_rate"
