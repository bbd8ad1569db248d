"""The peer's planning, measured in the peer's own environment: ``PYTHON bench/peer_planning.py NODES TP NODES_EACH``.

Prints one JSON object with the CPU seconds. `bench.planning` runs this file with the interpreter that has
`data-designer-slurm`. Measured are its compiler and its manifest, which resolves the allocation and makes the
specifications of the node workers. Making the authored values is not measured.
"""

import json
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from data_designer.slurm.config.images import ImageInspectionRecord, ImageKind, ServingImageInspection
from data_designer.slurm.config.profiles import ImageBuildProfile, SlurmProfile, injected_profile
from data_designer.slurm.config.run import (
    BuilderInput,
    DataDesignerSlurmConfig,
    DeploymentResources,
    DeploymentTopology,
    InvocationConfig,
    ServerDeploymentConfig,
)
from data_designer.slurm.config.vllm import VllmServerConfig
from data_designer.slurm.contracts import ArtifactReference, compute_canonical_json_sha256
from data_designer.slurm.planning.compiler import SlurmRunCompiler
from data_designer.slurm.planning.models import ResolvedClientRuntime, ResolvedDependencyLock, ResolvedImage
from data_designer.slurm.planning.resolution import resolve_slurm_config
from data_designer.slurm.runtime import node_spec
from data_designer.slurm.runtime.bootstrap import build_runtime_manifest
from data_designer.slurm.runtime.models import AllocationContext
from data_designer.slurm.runtime.preflight import AllocationLayout
from data_designer.slurm.state import AttemptLifecycleState, AttemptManifest
from data_designer.slurm.state.base import SchedulerIdentity

GPUS = 8
DIGEST = "0" * 64
RUN_ID = "run-1"


def measure(nodes: int, tensor_parallel: int, nodes_per_replica: int) -> dict[str, float]:
    """CPU seconds of the two parts, and the size of the manifest in bytes."""
    effective = _effective(nodes, tensor_parallel, nodes_per_replica)
    hosts = AllocationLayout(tuple(f"n{index:05d}" for index in range(nodes)))
    begun = time.process_time()
    plan = SlurmRunCompiler.compile(effective)
    compiled = time.process_time()
    context = _context(plan)
    ready = time.process_time()
    manifest = build_runtime_manifest(
        context,
        {"SLURM_JOB_GPUS": ",".join(map(str, range(GPUS)))},
        runtime_root=Path("/tmp/data-designer-slurm-4711-0/runtime"),
        log_directory=context.attempt_directory / "logs",
        layout=hosts,
    ).serialize_json()
    ended = time.process_time()
    return {"compile": compiled - begun, "manifest": ended - ready, "bytes": len(manifest)}


def _effective(nodes, tensor_parallel, nodes_per_replica):
    return resolve_slurm_config(
        DataDesignerSlurmConfig(
            schema_version=1,
            name="bench",
            builder=BuilderInput(
                inline={
                    "columns": [],
                    "model_configs": [{"alias": "writer", "model": "/models/writer"}],
                }
            ),
            invocation=InvocationConfig(num_records=100, dataset_name="bench"),
            deployments=[
                ServerDeploymentConfig(
                    model_alias="writer",
                    model="/models/writer",
                    server=VllmServerConfig(type="vllm", image={"path": "/images/vllm.sqsh"}),
                    resources=DeploymentResources(nodes=nodes),
                    topology=DeploymentTopology(tensor_parallel=tensor_parallel, nodes_per_replica=nodes_per_replica),
                )
            ],
        ),
        selected_profile=injected_profile(_profile()),
        client_runtime=_client_runtime(),
        deployment_images=(_image(),),
        dependency_lock=_lock(),
        runtime_bundle=ArtifactReference(path=f"/workspace/runtime/{DIGEST}.tar.gz", sha256=DIGEST),
        run_id=RUN_ID,
        package_version="1.0.0",
    )


def _profile():
    return SlurmProfile(
        schema_version=1,
        gpus_per_node=GPUS,
        workspace_root="/workspace",
        image_build=ImageBuildProfile(partition="cpu", cpus_per_task=4, memory="16G", time_limit="1:00:00"),
        container_mounts=[{"source": "/models", "target": "/models"}],
    )


def _client_runtime():
    facts = {
        "python_executable": "/usr/bin/python3",
        "python_implementation": "cpython",
        "python_version": "3.11.0",
        "python_abi": "cp311",
    }
    digest = compute_canonical_json_sha256(facts | {"distributions": []})
    return ResolvedClientRuntime(**facts, distributions=(), runtime_sha256=digest)


def _lock():
    return ResolvedDependencyLock(
        schema_version=1,
        resolver_version="bench",
        python_abi="cp311",
        client_runtime_sha256=_client_runtime().runtime_sha256,
        authored_requirements=(),
        base_distributions=(),
        overlay_packages=(),
    )


def _image():
    inspection = ServingImageInspection(
        kind=ImageKind.SERVING, server_type="vllm", runtime_version="0.22.0", executable_path="/usr/bin/vllm"
    )
    return ResolvedImage(
        authored_ref={"path": "/images/vllm.sqsh"},
        path="/images/vllm.sqsh",
        sha256=DIGEST,
        inspection=ImageInspectionRecord(
            schema_version=1, inspector_version="bench", sqsh_sha256=DIGEST, inspection=inspection
        ),
    )


def _context(plan):
    shard = plan.shards[0]
    now = datetime.now(timezone.utc)
    run_root = Path(plan.authored_config.path).parent
    attempt = AttemptManifest(
        schema_version=1,
        run_id=RUN_ID,
        shard_id=shard.shard_id,
        attempt_id="attempt-0001",
        attempt_ordinal=1,
        resolved_plan=ArtifactReference(path=f"{run_root}/resolved-plan.json", sha256=DIGEST),
        state=AttemptLifecycleState.RUNNING,
        scheduler=SchedulerIdentity(array_job_id=4711, array_task_id=0),
        created_at=now,
        updated_at=now,
    )
    directory = run_root / "shards" / shard.shard_id / "attempts" / attempt.attempt_id
    return AllocationContext(plan=plan, shard=shard, attempt=attempt, attempt_directory=directory)


if __name__ == "__main__":
    # As shipped it refuses larger allocations, because its specification travels in a command line.
    node_spec._MAXIMUM_SPEC_BYTES = 1 << 40
    print(json.dumps(measure(*map(int, sys.argv[1:4]))))
