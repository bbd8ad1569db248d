"""The example with two models on a real cluster: real Data Designer, a writer over two nodes, two judges."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.local.local_run import REPOSITORY, until
from tests.slurm.cluster import Cluster
from tests.slurm.slurm_run import RESTART, TWO_NODES, SlurmRun

parquet = pytest.importorskip("pyarrow.parquet")

EXAMPLE = REPOSITORY / "examples" / "writer_and_judge"
RECORDS = 48


def _run(cluster: Cluster) -> SlurmRun:
    authored = yaml.safe_load((EXAMPLE / "run.yaml").read_text())
    run = SlurmRun(
        cluster,
        {},
        builder={"source": "config.yaml"},
        client={"cpus": 4},
        invocation=authored["invocation"] | {"num_records": RECORDS},
        output=authored["output"],
    )
    for name in ("config.yaml", "products.csv"):
        shutil.copy(EXAMPLE / name, run.folder / name)
        (run.folder / name).chmod(0o644)
    told = json.loads(run.run_file.read_text())
    (one,) = told["deployments"]
    writer = one | TWO_NODES | RESTART | {"model_alias": "writer", "served_model_name": "writer"}
    judge = one | RESTART | {"model_alias": "judge", "served_model_name": "judge"}
    judge |= {"resources": {"nodes": 2}, "topology": {"tensor_parallel": 8}}
    run.run_file.write_text(json.dumps(told | {"deployments": [writer, judge]}))
    return run


def _done(attempt: Path) -> int:
    try:
        return int(json.loads((attempt / "progress.json").read_text())["records_done"])
    except FileNotFoundError:
        return 0


def test_two_models_on_four_nodes_lose_a_rank_and_no_record(cluster: Cluster) -> None:
    job = _run(cluster).submit({"ttft_ms": 100})
    until(lambda: _done(job.attempt()) > 0, f"the first records; {job.log()}")
    record = json.loads((job.attempt() / "tasks" / "writer-0.1.c2.started.json").read_text())
    cluster.run(("kill", "-9", str(record["lanes"][0]["pid"])), node="c2", user="root")
    assert job.ended(timeout_s=300) == "COMPLETED", job.log()
    story = job.story()
    assert "writer-0.r1 on node c2 was killed by signal 9 (SIGKILL)" in story
    assert "writer-0 (launch 2) is ready" in story
    assert "judge-1 is ready" in story
    result = json.loads((job.attempt() / "result.json").read_text())
    assert result["records"] == RECORDS
    tables = [
        parquet.read_table(job.attempt() / "output" / f["path"]) for f in result["files"] if f["rows"] is not None
    ]
    products = [name for table in tables for name in table.column("product").to_pylist()]
    assert len(products) == RECORDS
    assert set(products) <= {row.split(",")[0] for row in (EXAMPLE / "products.csv").read_text().splitlines()[1:]}
