"""From a plan to the request of one submission, and to the secrets that it needs."""

import pytest

from core.plan.model import RunPlan
from core.problem import At
from core.report import as_text
from core.slurm.sbatch import ArrayRequest, job_name, render_batch
from core.submit.records import Retry
from core.submit.request import ALL, RunFacts, Wanted, batch_request, shards_of
from core.submit.secrets import unset_secrets
from core.submit.words import hint_of
from tests.core.plan_cases import planned

FACTS = RunFacts(
    run_id="reviews-20260101-000000-abcdef",
    run_dir="/scratch/runs/r1",
    log_dir="/scratch/runs/r1/submissions/1/logs",
    python="/opt/venv/bin/python",
    bundle="/scratch/runs/r1/bundle.zip",
)


def plan(*deployments: dict[str, object], **top: object) -> RunPlan:
    return planned(list(deployments) or [{}], **top).unwrap()  # type: ignore[arg-type]


def directives(of: RunPlan, wanted: Wanted = ALL) -> list[str]:
    text = render_batch(batch_request(of, FACTS, 1, wanted), At(source="batch script")).unwrap()
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_everything_that_the_files_say_reaches_sbatch() -> None:
    of = plan(
        {"resources": {"nodes": 2}},
        site={"scheduler": {"account": "research", "partition": "gpu,long", "mem_per_gpu": "80G"}},
        client={"cpus": 24},
        array_tasks={"count": 6, "max_concurrent": 2},
        submission={"job_name": "nightly", "time_limit": "1-00:00:00", "comment": "night run"},
        on_time_limit={"margin": "10m"},
    )
    assert directives(of) == [
        "--job-name=nightly-reviews-20260101-000000-abcdef-1",
        '--comment="night run"',
        "--account=research",
        "--partition=gpu,long",
        "--time=1-00:00:00",
        "--array=0-5%2",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=24",
        "--gres=gpu:8",
        "--mem-per-gpu=80G",
        "--chdir=/scratch/runs/r1",
        "--output=/scratch/runs/r1/submissions/1/logs/slurm-%A_%a.out",
        "--open-mode=append",
        "--requeue",
        "--export=ALL",
        "--signal=B:USR1@600",
    ]


def test_a_run_of_one_shard_is_a_plain_job() -> None:
    assert not [word for word in directives(plan()) if word.startswith("--array")]
    assert shards_of(plan(), ALL) is None


def test_whole_nodes_where_the_site_has_no_gres() -> None:
    of = directives(plan(site={"gpu_request_mode": "visible", "scheduler": {"mem_per_gpu": "80G"}}))
    assert "--exclusive" in of
    assert not [word for word in of if word.startswith(("--gres", "--mem-per-gpu"))]


def test_nodes_without_gpus_ask_for_none() -> None:
    assert not [word for word in directives(plan(gpus_per_node=0)) if "gpu" in word and "scratch" not in word]


def test_a_retry_names_its_shards_and_avoids_sick_nodes() -> None:
    of = plan(array_tasks={"count": 6})
    retry = Retry(reasons=(), resume="never", excluded=("gpu7",), time_limit="1-00:00:00")
    wanted = Wanted(indices=(4, 1, 4), after_job="4711", retry=retry)
    assert batch_request(of, FACTS, 2, wanted).array == ArrayRequest(indices=(1, 4), max_concurrent=6)
    assert {"--array=1,4", "--exclude=gpu7", "--time=1-00:00:00", "--dependency=afterany:4711"} <= set(
        directives(of, wanted)
    )
    assert shards_of(of, wanted) == (1, 4)


def test_a_retry_of_a_single_shard_is_still_an_array() -> None:
    """So that the task knows which one it is."""
    assert "--array=3" in directives(plan(array_tasks={"count": 6}), Wanted(indices=(3,)))


def test_a_program_of_the_user_is_never_started_twice_by_slurm() -> None:
    own = plan(builder=None, client={"command": ["python", "ask.py"]})
    assert "--no-requeue" in directives(own)


def test_names_are_unique_and_fit_into_accounting() -> None:
    longest = "x" * 128
    run_id = f"{longest}-20260101-000000-abcdef"
    names = {job_name(run_id, number, longest) for number in range(1, 20)}
    assert len(names) == 19
    assert max(map(len, names)) <= 255 - len("_4000000")


def secrets() -> RunPlan:
    def of(name: str) -> dict[str, str]:
        return {"type": "secret", "environment": name}

    return plan(
        {"server": {"environment": {"HF_TOKEN": of("A"), "MODE": {"type": "literal", "value": "x"}}}},
        invocation={
            "num_records": 10,
            "mcp_providers": [
                {"provider_type": "sse", "name": "web", "endpoint": "http://127.0.0.1/sse", "api_key": of("B")},
                {"provider_type": "stdio", "name": "own", "command": "tool", "environment": {"KEY": of("C")}},
            ],
        },
        client={"dependencies": {"index_credentials": {"private": of("D")}}},
    )


def test_every_reference_to_a_secret_is_looked_for() -> None:
    assert [(problem.at.path, problem.name) for problem in unset_secrets(secrets(), {})] == [
        ("deployments[0].server.environment.HF_TOKEN", "A"),
        ("invocation.mcp_providers[0].api_key", "B"),
        ("invocation.mcp_providers[1].environment.KEY", "C"),
        ("client.dependencies.index_credentials.private", "D"),
    ]
    assert list(unset_secrets(secrets(), dict.fromkeys("ABCD", ""))) == []
    assert "export A before you submit" in as_text(next(iter(unset_secrets(secrets(), {}))))


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("Batch job submission failed: Invalid partition name specified", "submission.partition"),
        ("Batch job submission failed: Invalid account or account/partition combination specified", "account"),
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", "ask for less"),
        ("Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)", "time_limit"),
        ("Batch job submission failed: Invalid job array specification", "MaxArraySize"),
        ("Batch job submission failed: Invalid qos specification", "QOS"),
        ("Batch job submission failed: Requested node configuration is not available", "nodes, GPUs"),
        ("Batch job submission failed: Invalid generic resource (gres) specification", "gpu_request_mode"),
        ("the flux is not frobnicated", "mend the run file"),
    ],
)
def test_a_refusal_has_a_hint(reason: str, word: str) -> None:
    assert word in hint_of(reason)
