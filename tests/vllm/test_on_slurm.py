"""Real vLLM, real Data Designer and a real Slurm cluster in one run: a replica over two nodes."""

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.slurm.available import why_not
from tests.slurm.cluster import Cluster
from tests.slurm.options import LabNode, LabOptions
from tests.slurm.running import running_cluster
from tests.slurm.slurm_run import SlurmRun
from tests.vllm.real import EXAMPLES, PATIENCE_S, make_model, server

pytestmark = pytest.mark.vllm

OVER_TWO_NODES = {"tensor_parallel": 1, "pipeline_parallel": 2, "nodes_per_replica": 2}
TRACED = """--compilation-config={"mode":"DYNAMO_TRACE_ONCE","backend":"eager"}"""
"""With --enforce-eager, pipeline stages on CPUs start and then fail at the first request."""
RECORDS = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    assert why_not() is None, f"no real Slurm: {why_not()}"
    nodes = tuple(LabNode(name=name, gpus=0) for name in ("c1", "c2"))
    with running_cluster(LabOptions(nodes=nodes)) as cluster:
        yield cluster


def test_pipeline_over_two_nodes(cluster: Cluster) -> None:
    run = SlurmRun(
        cluster,
        {
            "model_alias": "writer",
            "resources": {"nodes": 2},
            "topology": OVER_TWO_NODES,
            "server": server(TRACED),
        },
        gpus_per_node=0,
        builder={"source": "config.yaml"},
        client={"cpus": 4},
        invocation={"num_records": RECORDS},
        submission={"time_limit": "00:30:00"},
    )
    make_model(run.model)
    shutil.copy(EXAMPLES / "one_model" / "config.yaml", run.folder)
    os.chmod(run.folder / "config.yaml", 0o644)
    job = run.submit(gated=False)
    assert job.ended(timeout_s=PATIENCE_S) == "COMPLETED", job.log()
    assert "writer-0 is ready" in job.story()
    assert json.loads((job.attempt() / "result.json").read_text())["records"] == RECORDS
    for rank in (0, 1):
        assert f"(Worker_PP{rank} " in (job.attempt() / "logs" / f"writer-0.1.writer-0.r{rank}.log").read_text()
