"""One folder per case: what the user wrote and what the nodes said, and the plan or the problems that follow.

``run.yaml`` and ``profiles.yaml`` are authored files; ``nodes.json`` lists the granted nodes, each an object of fields
that differ from an ordinary node. Every file that a case leads to must be there, and no other.
"""

from pathlib import Path

import msgspec
import pytest
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.config.read import choose_cluster, read_profile_catalog, read_run_file
from core.layout import AttemptPaths
from core.outcome import both
from core.plan.bind import bind
from core.plan.bound import Attempt, BoundPlan
from core.plan.explain import explain, explain_bound
from core.plan.facts import NodeFacts
from core.plan.job_steps import StepSite, server_step
from core.plan.model import RunPlan
from core.plan.process_env import process_environment
from core.plan.run_plan import plan_run
from core.plan.steps import lanes_on, steps_of
from core.problem import Problems
from core.report import as_text
from core.slurm.srun import serve_srun
from core.vllm.serve_args import serve_argv
from tests.conftest import Golden
from tests.nodes import node

CASES = sorted(path for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name != "__pycache__")
ATTEMPT = Attempt(run_id="run1", shard=0, number=1, job_id="4711")
INPUTS = {"run.yaml", "profiles.yaml", "nodes.json"}


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 25


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plan(case: Path, golden: Golden) -> None:
    made = make(case)
    for name, content in made.items():
        golden(case / name, content)
    assert {path.name for path in case.iterdir()} - INPUTS == set(made), "a file too many; delete it"


def make(case: Path) -> dict[str, str]:
    """What a case leads to: file name → content."""
    run = read_run_file("run.yaml", (case / "run.yaml").read_bytes())
    catalog = read_profile_catalog("profiles.yaml", (case / "profiles.yaml").read_bytes())
    planned = both(run, catalog.bind(lambda found: choose_cluster(found, None, "login1"))).bind(
        lambda pair: plan_run(pair[0], *pair[1])
    )
    if not is_successful(planned):
        return {"problems.txt": words(planned.failure())}
    plan = planned.unwrap()
    made = {"plan.json": canonical_json(plan).decode(), "explain.txt": explain(plan)}
    if not (case / "nodes.json").exists():
        return made
    facts = nodes(case)
    bound = bind(plan, tuple(fact.node for fact in facts), facts, ATTEMPT, "/run/bundle")
    if not is_successful(bound):
        return {**made, "problems.txt": words(bound.failure())}
    return {**made, "bound.json": canonical_json(bound.unwrap()).decode(), "steps.txt": steps(plan, bound.unwrap())}


def nodes(case: Path) -> tuple[NodeFacts, ...]:
    given = msgspec.json.decode((case / "nodes.json").read_bytes(), type=list[dict[str, object]])
    return tuple(node(f"n{index + 1:02d}", index + 1, **different) for index, different in enumerate(given))  # type: ignore[arg-type]


def words(problems: Problems) -> str:
    return "".join(as_text(problem) + "\n" for problem in problems)


def steps(plan: RunPlan, bound: BoundPlan) -> str:
    """Every job step and every process of the plan: where, with which command and with which variables."""
    lines = [explain_bound(bound)]
    outer = {"PATH": "/usr/bin", "PYTHONPATH": "/site/b:/site/a", "DD_SLURM_SERVER_TOKEN": "token-from-environment"}
    site = StepSite(
        job_id=ATTEMPT.job_id,
        plan=plan,
        bundle="/run/bundle",
        python="/venv/bin/python",
        run_root="/run",
        attempt=AttemptPaths(root="/run/attempt"),
        gpus_per_node=plan.request.gpus_per_node,
    )
    for step in steps_of(bound):
        srun = serve_srun(server_step(site, step, 1, bound, site.attempt.bound(1)))
        lines += [f"step {step.name}", *(f"    {token}" for token in srun.argv)]
        for slot in step.slots:
            for lane in lanes_on(bound, step.name, bound.nodes[slot].name):
                lines.append(f"{lane.name} on {bound.nodes[slot].name}, after {lane.lane.launch_delay_ms} ms")
                lines += [f"    {token}" for token in serve_argv(bound, lane)]
                environment = process_environment(bound, lane, outer, "/tmp/scratch")
                lines += [f"  {name}={value}" for name, value in sorted(environment.items())]
    return "\n".join(lines) + "\n"
