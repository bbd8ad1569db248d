"""The run files in `examples/` are read, planned and, where they are small enough, carried out by the client."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from returns.pipeline import is_successful

from core.client_spec import ClientSpec, ModelEndpoint, client_files, client_spec
from core.codec import canonical_json
from core.config.read import choose_cluster, read_profile_catalog, read_run_file
from core.layout import AttemptPaths
from core.plan.explain import explain
from core.plan.model import RunPlan
from core.plan.run_plan import plan_run
from core.plan.shards import shard_of
from core.plan.topology import replicas_of, slots_needed

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("one_model", "shared_node", "writer_and_judge")
OWN = "own_program"


def plan(name: str, cluster: str | None = None) -> RunPlan:
    run = read_run_file("run.yaml", (EXAMPLES / name / "run.yaml").read_bytes())
    catalog = read_profile_catalog("profiles.yaml", (EXAMPLES / "profiles.yaml").read_bytes())
    chosen = catalog.bind(lambda located: choose_cluster(located, cluster, "somewhere"))
    planned = run.bind(lambda read: chosen.bind(lambda pair: plan_run(read, *pair)))
    assert is_successful(planned), planned.failure()
    return planned.unwrap()


@pytest.mark.parametrize(("name", "cluster"), [*((name, None) for name in (*SMALL, OWN)), ("large", "big")])
def test_every_example_can_be_planned(name: str, cluster: str | None) -> None:
    assert "\n" in explain(plan(name, cluster))


def shape(planned: RunPlan, gpus: int) -> list[tuple[str, int, int]]:
    """Alias, replicas and first slot of each deployment."""
    every = [gpus] * slots_needed([deployment.placement for deployment in planned.deployments])
    return [(d.alias, len(list(replicas_of(d.placement, every))), d.placement.first_slot) for d in planned.deployments]


def test_writer_and_judge_need_two_nodes_and_the_writer_has_two_replicas() -> None:
    planned = plan("writer_and_judge")
    assert planned.request.nodes == 2
    assert shape(planned, 2) == [("writer", 2, 0), ("judge", 1, 1)]
    assert planned.deployments[0].on_failure.policy == "restart"
    assert (planned.request.array_count, planned.invocation.num_records) == (2, 96)


def test_the_shared_node_is_one_node() -> None:
    planned = plan("shared_node")
    assert planned.request.nodes == 1
    assert shape(planned, 2) == [("writer", 1, 0), ("judge", 1, 0)]


def test_the_large_model_has_two_replicas_over_two_nodes_each() -> None:
    planned = plan("large", "big")
    assert planned.request.nodes == 4
    assert shape(planned, 8) == [("expert", 2, 0)]
    assert planned.deployments[0].server.model == "/models/Qwen3-Coder-480B-A35B-Instruct"


def spec(name: str, folder: Path, shard: int) -> ClientSpec:
    planned = plan(name, "big" if name == "large" else None)
    endpoints = tuple(
        ModelEndpoint(alias=d.alias, base_url="http://127.0.0.1:9/v1", model=d.served_name) for d in planned.deployments
    )
    return client_spec(
        planned,
        shard_of(planned.invocation.num_records, planned.request.array_count, shard),
        endpoints,
        client_files(AttemptPaths(root=str(folder))),
        builder=str(EXAMPLES / name / "config.yaml"),
        base_folder=str(EXAMPLES / name),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SMALL, "large"])
def test_data_designer_accepts_every_config(name: str, tmp_path: Path) -> None:
    from tests.shell.client_world import World

    world = World(tmp_path)
    (tmp_path / "client.json").write_bytes(canonical_json(spec(name, tmp_path, 0)))
    with world.start() as client:
        log: Any = client.communicate(b"", timeout=60)[0]
        assert client.returncode == 75, log
    assert world.preparation().__struct_config__.tag == "prepared", log


@pytest.mark.slow
def test_the_program_of_ones_own_is_rehearsed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shell.cli", "rehearse", str(EXAMPLES / OWN / "run.yaml"), "--json"]
    options = ["--profile-file", str(EXAMPLES / "profiles.yaml"), "--workspace", str(tmp_path)]
    ended = subprocess.run([*command, *options], cwd=EXAMPLES.parent, capture_output=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr.decode()
    shards = json.loads(ended.stdout)["shards"]
    lines = [line for shard in shards for file in shard["files"] for line in Path(file).read_text().splitlines()]
    assert sorted(json.loads(line)["number"] for line in lines) == list(range(24))
    assert all(json.loads(line)["story"] for line in lines)
