"""Submit one run with the peer, in the peer's own environment: ``PYTHON bench/peer_allocation.py REQUEST``.

REQUEST is a JSON file: ``run`` and ``profile`` as the peer's users write them, and ``executable``, which stands for the
server in an image. The image is an empty file with the facts that the peer's inspection would have found; making and
inspecting images needs containers. Prints one JSON object with the job and the folder of the run.
"""

import hashlib
import json
import sys
from pathlib import Path

from data_designer.slurm.config import DataDesignerSlurmConfig, ImageBuildRequest
from data_designer.slurm.config.images import ImageInspectionRecord, ImageKind, ServingImageInspection
from data_designer.slurm.config.profiles import SlurmProfile
from data_designer.slurm.images.service import VerifiedImageRegistry
from data_designer.slurm.services.wiring import create_slurm_run_service


def submit(request):
    """The job that the peer has submitted."""
    profile = SlurmProfile.model_validate(request["profile"])
    workspace = Path(profile.workspace_root)
    image = workspace / "server.sqsh"
    image.write_bytes(b"")
    found = ServingImageInspection(
        kind=ImageKind.SERVING, server_type="vllm", runtime_version="0.22.0", executable_path=request["executable"]
    )
    record = ImageInspectionRecord(
        schema_version=1, inspector_version="inspector-1", sqsh_sha256=hashlib.sha256(b"").hexdigest(), inspection=found
    )
    wanted = ImageBuildRequest(name="server", kind="serving", source=str(image))
    VerifiedImageRegistry(workspace).register_existing(wanted, record)
    service = create_slurm_run_service(profile=profile)
    execution = service.execute(DataDesignerSlurmConfig.model_validate(request["run"]), source_root=workspace)
    return {"job": execution.job_id, "run": str(workspace / "runs" / execution.run_id)}


if __name__ == "__main__":
    print(json.dumps(submit(json.loads(Path(sys.argv[1]).read_text()))))
