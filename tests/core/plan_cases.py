"""Generated questions for the planner: run files, sites and nodes, most of which fit together."""

import json
from collections.abc import Mapping

import msgspec
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.config.profile import Profile
from core.config.read import read_run_file
from core.outcome import Outcome, problems_of
from core.plan.bind import bind
from core.plan.bound import Attempt, BoundPlan
from core.plan.facts import NodeFacts
from core.plan.model import RunPlan
from core.plan.run_plan import plan_run
from core.report import as_text
from core.units import NodeName
from tests.nodes import node

ATTEMPT = Attempt(run_id="run1", shard=0, number=1, job_id="4711")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the nodes that were granted for it."""

    plan: RunPlan
    facts: tuple[NodeFacts, ...]

    @property
    def hosts(self) -> tuple[NodeName, ...]:
        return tuple(fact.node for fact in self.facts)

    def bound(self) -> Outcome[BoundPlan]:
        return bind(self.plan, self.hosts, self.facts, ATTEMPT, "/run/bundle")


def planned(
    deployments: list[dict[str, object]],
    gpus_per_node: object = 8,
    site: Mapping[str, object] | None = None,
    **top: object,
) -> Outcome[RunPlan]:
    """The plan of a short run file; aliases and models may be left out."""
    named = [{"model_alias": f"m{i}", "model": f"lab/m{i}", **given} for i, given in enumerate(deployments)]
    document = {
        "schema_version": 1,
        "name": "case",
        "builder": {"source": "config.yaml"},
        "invocation": {"num_records": 100},
        "deployments": named,
        **top,
    }
    run = read_run_file("run.json", json.dumps(document).encode())
    assert is_successful(run), "\n".join(map(as_text, problems_of(run)))
    profile = msgspec.convert({"workspace_root": "/scratch", "gpus_per_node": gpus_per_node, **(site or {})}, Profile)
    return plan_run(run.unwrap(), "hpc", profile)


def bound_on(plan: RunPlan, gpus: int = 8, **different: object) -> Outcome[BoundPlan]:
    """The plan on ordinary nodes."""
    facts = tuple(node(f"n{index:02d}", index, gpus, **different) for index in range(plan.request.nodes))
    return Case(plan=plan, facts=facts).bound()


SIZES = st.sampled_from([1, 1, 2, 4, 8])
TOPOLOGIES = st.fixed_dictionaries(
    {"tensor_parallel": SIZES},
    optional={
        "pipeline_parallel": st.sampled_from([1, 2]),
        "data_parallel": st.sampled_from([1, 2, 4]),
        "expert_parallel": st.booleans(),
        "nodes_per_replica": st.sampled_from([1, 2]),
    },
)


@st.composite
def deployments(draw: st.DrawFn, alone: bool) -> dict[str, object]:
    topology = draw(TOPOLOGIES)
    resources: dict[str, object] = {"nodes": draw(st.sampled_from([1, 2, 2]))}
    if not alone:
        topology.pop("nodes_per_replica", None)
        resources = {"shared_node": "s", "gpus_per_node": draw(st.sampled_from([0, 1, 2, 4]))}
    return {"topology": topology, "resources": resources}


@st.composite
def cases(draw: st.DrawFn) -> Case | None:
    """None where the planner refuses."""
    count = draw(st.integers(1, 4))
    alone = count == 1 or draw(st.booleans())
    gpus = draw(st.sampled_from([8, 8, 8, 4, "auto", 0]))
    site = (
        {"ports": {"range": draw(st.sampled_from([[10_000, 40_000], [20_000, 22_500]]))}} if draw(st.booleans()) else {}
    )
    asked = [draw(deployments(alone)) for _ in range(count)]
    outcome = planned(asked, gpus, site)
    if not is_successful(outcome):
        assert all(as_text(problem) for problem in problems_of(outcome))
        return None
    plan = outcome.unwrap()
    ephemeral = draw(st.sampled_from([32_768, 25_000]))
    facts = tuple(
        node(
            f"n{index:02d}",
            index,
            draw(st.sampled_from([8, 4])) if gpus == "auto" else 8,
            ephemeral_low=ephemeral,
            taken_ports=sorted(draw(st.sets(st.integers(9_990, 26_000), max_size=12))),
        )
        for index in range(plan.request.nodes)
    )
    return Case(plan=plan, facts=facts)
