"""Models of the hub: one download per model and cache, and offline only who will find everything."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.plan.bound import BoundPlan
from core.plan.facts import NodeFacts
from core.plan.hub import hub_wanted, is_hub_id
from core.plan.judge import Rehearsal, facts_request
from core.plan.model import RunPlan
from core.plan.process_env import process_environment
from core.plan.steps import LaneOf, download_step, lanes_on, steps_of
from core.units import NodeName
from tests.core.plan_cases import Case, planned
from tests.nodes import node


def cached(alias: str, model: str, place: str, **different: object) -> dict[str, object]:
    ordinary = {"cache": "/hub", "filesystem": "nfs4", "whole": False, "offline": False}
    return {"alias": alias, "model": model, "place": place, **ordinary, **different}


def on_places(places: Sequence[str], **different: object) -> tuple[NodeFacts, ...]:
    """A node for each place; its cache lacks the only model unless said otherwise."""
    return tuple(
        node(f"n{index}", index, hub=[cached("m0", "lab/m0", place, **different)]) for index, place in enumerate(places)
    )


def plan_of(nodes: int, server: Mapping[str, object] | None = None) -> RunPlan:
    shape: dict[str, object] = {"topology": {"tensor_parallel": 8}, "resources": {"nodes": nodes}}
    return planned([{**shape, "server": server or {}}], 8).unwrap()


def bound_of(plan: RunPlan, facts: tuple[NodeFacts, ...]) -> BoundPlan:
    return Case(plan=plan, facts=facts).bound().unwrap()


def servers(bound: BoundPlan) -> Iterator[LaneOf]:
    for step in steps_of(bound):
        for slot in step.slots:
            yield from lanes_on(bound, step.name, bound.nodes[slot].name)


def offline(bound: BoundPlan) -> list[str | None]:
    """What each server is told."""
    return [process_environment(bound, of, {}, "/tmp/s").get("HF_HUB_OFFLINE") for of in servers(bound)]


def test_8_3_eight_nodes_with_one_cache_have_one_downloader_and_are_offline() -> None:
    bound = bound_of(plan_of(8), on_places(["nfs:/hub"] * 8))
    assert [(one.model, one.slot, one.nodes) for one in bound.downloads] == [("lab/m0", 0, 8)]
    assert offline(bound) == ["1"] * 8


def test_each_cache_of_its_own_has_a_downloader() -> None:
    bound = bound_of(plan_of(4), on_places(["a", "b", "b", "c"]))
    assert [(one.slot, one.nodes) for one in bound.downloads] == [(0, 1), (1, 2), (3, 1)]
    assert len({one.step for one in bound.downloads}) == 3
    assert offline(bound) == ["1"] * 4


def test_what_is_in_the_cache_is_not_fetched_again() -> None:
    bound = bound_of(plan_of(3), on_places(["nfs:/hub"] * 3, whole=True))
    assert bound.downloads == ()
    assert offline(bound) == ["1"] * 3


def test_two_deployments_of_one_model_fetch_it_once() -> None:
    share: dict[str, object] = {"model": "lab/m0", "resources": {"shared_node": "s", "gpus_per_node": 4}}
    plan = planned([share, share], 8).unwrap()
    facts = (node("n0", hub=[cached("m0", "lab/m0", "p"), cached("m1", "lab/m0", "p")]),)
    assert len(bound_of(plan, facts).downloads) == 1


def test_a_tokenizer_of_another_repository_is_fetched_too() -> None:
    plan = plan_of(1, {"extra_args": ["--tokenizer", "lab/words", "--tokenizer-revision=v3", "--revision=v2"]})
    assert [(one.model, one.revision) for one in hub_wanted(plan)] == [("lab/m0", "v2"), ("lab/words", "v3")]
    facts = (node("n0", hub=[cached("m0", "lab/m0", "p"), cached("m0", "lab/words", "p", whole=True)]),)
    bound = bound_of(plan, facts)
    assert [(one.model, one.revision) for one in bound.downloads] == [("lab/m0", "v2")]
    assert offline(bound) == ["1"]


@pytest.mark.parametrize(
    "server",
    [
        {"environment": {"HF_HUB_OFFLINE": {"type": "literal", "value": "0"}}},
        {"environment": {"TRANSFORMERS_OFFLINE": {"type": "literal", "value": "1"}}},
        {"environment": {"VLLM_USE_MODELSCOPE": {"type": "literal", "value": "True"}}},
        {"extra_args": ["--download-dir=/elsewhere"]},
    ],
)
def test_where_the_author_decides_nothing_is_done(server: dict[str, object]) -> None:
    plan = plan_of(2, server)
    assert hub_wanted(plan) == ()
    bound = bound_of(plan, on_places(["p", "p"]))
    assert bound.downloads == ()
    authored = server.get("environment", {})
    assert offline(bound) == (["0", "0"] if "HF_HUB_OFFLINE" in str(authored) else [None, None])


@pytest.mark.parametrize("flag", ['--speculative-config={"model": "lab/draft"}', "--hf-overrides.a=b"])
def test_flags_that_name_more_leave_servers_online(flag: str) -> None:
    bound = bound_of(plan_of(2, {"extra_args": [flag]}), on_places(["p", "p"]))
    assert len(bound.downloads) == 1
    assert offline(bound) == [None, None]


def test_an_environment_that_forbids_downloads_is_left_alone() -> None:
    bound = bound_of(plan_of(2), on_places(["p", "p"], offline=True))
    assert bound.downloads == ()
    assert offline(bound) == [None, None]


def test_a_cache_inside_a_container_is_not_filled_in_vain() -> None:
    image = {"image": {"path": "/images/vllm.sqsh"}}
    inside = bound_of(plan_of(2, image), on_places(["a", "b"], filesystem="overlay"))
    assert inside.downloads == ()
    assert offline(inside) == [None, None]
    mounted = bound_of(plan_of(2, image), on_places(["nfs", "nfs"]))
    assert len(mounted.downloads) == 1
    native = bound_of(plan_of(2), on_places(["a", "b"], filesystem="overlay"))
    assert len(native.downloads) == 2


def test_a_node_that_does_not_say_leaves_all_servers_online() -> None:
    facts = (*on_places(["p"]), node("n1", 1))
    bound = bound_of(plan_of(2), facts)
    assert bound.downloads == ()
    assert offline(bound) == [None, None]


def test_nothing_is_asked_or_fetched_in_a_rehearsal() -> None:
    assert facts_request(plan_of(2), Rehearsal(executable=("stand-in",)), "/facts").hub == ()
    assert [one.model for one in facts_request(plan_of(2), None, "/facts").hub] == ["lab/m0"]


@pytest.mark.parametrize(
    ("model", "is_one"),
    [
        ("lab/m0", True),
        ("gpt2", True),
        ("lab/m-0.5_b", True),
        ("/models/m0", False),
        ("s3://bucket/m0", False),
        ("lab/m0:Q4_K_M", False),
        ("lab/m0/file.gguf", False),
    ],
)
def test_hub_ids(model: str, is_one: bool) -> None:
    assert is_hub_id(model) == is_one


def test_a_download_is_a_step_of_one_node_with_one_process() -> None:
    bound = bound_of(plan_of(2), on_places(["p", "p"]))
    (download,) = bound.downloads
    step = download_step(download)
    assert step.name not in {other.name for other in steps_of(bound)}
    assert (step.alias, step.slots) == ("m0", (0,))
    (lane,) = lanes_on(bound, step.name, NodeName("n0"))
    assert lanes_on(bound, step.name, NodeName("n1")) == ()
    assert process_environment(bound, lane, {}, "/tmp/s")["CUDA_VISIBLE_DEVICES"] == ""


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans(), st.sampled_from(["nfs4", "overlay", "xfs"])),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_nobody_is_offline_without_the_model_and_nothing_is_fetched_twice(
    told: list[tuple[str, bool, bool, str]], contained: bool
) -> None:
    facts = tuple(
        node(
            f"n{index}",
            index,
            hub=[cached("m0", "lab/m0", place, whole=whole, offline=off, filesystem=kind)],
        )
        for index, (place, whole, off, kind) in enumerate(told)
    )
    plan = plan_of(len(told), {"image": {"path": "/i.sqsh"}} if contained else None)
    bound = bound_of(plan, facts)
    fetched = [told[one.slot][0] for one in bound.downloads]
    assert len(set(fetched)) == len(fetched)
    assert all(not told[one.slot][1] and not told[one.slot][2] for one in bound.downloads)
    for server, (place, whole, _, _) in zip(offline(bound), told, strict=True):
        assert server is None or whole or place in fetched
