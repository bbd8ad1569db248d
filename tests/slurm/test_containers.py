"""Whole runs in containers on a real cluster. The runtimes are stand-ins: see docs/containers.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.supervise.verdict import Completed
from tests.local.local_run import until
from tests.slurm.cluster import Cluster
from tests.slurm.containers import image, runtime_commands
from tests.slurm.options import PATH
from tests.slurm.slurm_run import RESTART, TWO_NODES, SlurmJob, SlurmRun

RUNTIMES = ("pyxis", "apptainer")
SECRET = {"HF_TOKEN": {"type": "secret", "environment": "LAB_HF_TOKEN"}}
FROM_THE_IMAGE = {"PYTHONPATH": "/opt/of-the-image", "LAB_HF_TOKEN": "none", "DD_SLURM_SERVER_TOKEN": "none"}
_FOUR_RECORDS = """for number in 0 1 2 3; do echo "{\\"number\\": $number}"; done"""


class Contained:
    """A cluster whose servers run in containers of a runtime, with models that are mounted at another path."""

    def __init__(self, cluster: Cluster, runtime: str) -> None:
        self.cluster, self.runtime = cluster, runtime
        self.models = cluster.folder_for("models")
        (self.models / "m").mkdir()
        self.commands = runtime_commands(cluster, "srun" if runtime == "pyxis" else "apptainer")
        self.mounts = [{"source": str(self.models), "target": "/models", "read_only": True}]

    def run(self, deployment: Mapping[str, Any], in_image: Path, model: str = "m", **top: Any) -> SlurmRun:
        server = {"executable": "vllm", "image": {"path": str(in_image)}, **deployment.get("server", {})}
        profile: dict[str, Any] = {"container": self.runtime, "container_mounts": self.mounts}
        if self.runtime == "pyxis":
            profile["scheduler"] = {"bin_path": str(self.commands)}
        named = {"model": f"{self.models}/{model}", **deployment, "server": server}
        return SlurmRun(self.cluster, named, profile=profile, **top)

    def submit(self, run: SlurmRun, **options: Any) -> SlurmJob:
        return run.submit(PATH=f"{self.commands}:{PATH}", **options)


@pytest.fixture(params=RUNTIMES)
def contained(cluster: Cluster, request: pytest.FixtureRequest) -> Contained:
    return Contained(cluster, request.param)


@pytest.fixture
def pyxis(cluster: Cluster) -> Contained:
    return Contained(cluster, "pyxis")


def _of_server(job: SlurmJob, node: str, launch: int = 1) -> tuple[str, dict[str, str], list[str]]:
    """Of the first server on a node: its root as the node sees it, its environment, its command line."""
    pid = job.lane_pids(node, launch)[0]
    environ, argv = (
        job.cluster.run(("cat", f"/proc/{pid}/{name}"), node=node, user="root").stdout.split("\0")[:-1]
        for name in ("environ", "cmdline")
    )
    return f"/proc/{pid}/root", dict(item.split("=", 1) for item in environ), argv


def _sees(job: SlurmJob, node: str, root: str, path: str) -> bool:
    return job.cluster.run(("test", "-e", f"{root}{path}"), node=node, user="root", check=False).returncode == 0


def test_a_run_in_containers(contained: Contained) -> None:
    """What servers see, what wins over the image, and all records at the end."""
    deployment = {**TWO_NODES, "server": {"environment": SECRET}}
    run = contained.run(deployment, image(contained.cluster, **FROM_THE_IMAGE))
    job = contained.submit(run, LAB_HF_TOKEN="secret-of-alice")
    run.wait_working(job)
    root, environ, argv = _of_server(job, "c2")
    assert "/models/m" in argv
    assert environ["PYTHONPATH"].startswith(f"{job.root}/bundle-")
    assert environ["HF_TOKEN"] == "secret-of-alice"
    assert environ["VLLM_API_KEY"] == (job.attempt() / "server.token").read_text().strip()
    assert environ["PATH"].startswith("/opt/vllm/bin:")
    seen = {path: _sees(job, "c2", root, path) for path in ("/of-the-image", "/models/m", str(job.root))}
    assert seen == dict.fromkeys(seen, True)
    hidden = (str(contained.models), str(run.gate), str(contained.cluster.folder / "home"))
    assert not [path for path in hidden if _sees(job, "c2", root, path)]
    secrets = ("secret-of-alice", environ["VLLM_API_KEY"])
    told = [one.command for node in contained.cluster.nodes for one in contained.cluster.job_processes(node)]
    assert not [command for command in told if any(secret in command for secret in secrets)]
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]
    assert job.verdict() == Completed()


def test_a_killed_rank_starts_again_in_a_container_of_its_own(contained: Contained) -> None:
    """The stand-in for Pyxis refuses a name that a step of the job had before on the node."""
    run = contained.run(TWO_NODES | RESTART, image(contained.cluster))
    job = contained.submit(run)
    run.wait_working(job)
    job.kill_lane("c2")
    until(lambda: "m-0 (launch 2)" in job.log(), job.log())
    assert _sees(job, "c1", _of_server(job, "c1", launch=2)[0], "/of-the-image")
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]
    assert "m-0 (launch 2) is ready" in job.story()


def test_a_model_that_is_not_there_inside(contained: Contained) -> None:
    run = contained.run(TWO_NODES, image(contained.cluster), model="absent")
    job = contained.submit(run, gated=False)
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 78
    story = job.story()
    assert all(f"node {node}" in story for node in ("c1", "c2")), story
    assert "'/models/absent' is missing" in story
    assert "nothing was started" in story


def test_every_image_is_asked_for_its_own(contained: Contained) -> None:
    """Two models of two images share a node: each has another vLLM, and the second one lacks the executable."""
    images = [image(contained.cluster, version="0.28.0"), image(contained.cluster, version="0.30.1")]
    job = _two_models(contained, images, ("vllm", "vllm"))
    assert job.ended() == "COMPLETED", job.log()
    facts = {path.parent.name: json.loads(path.read_text()) for path in (job.attempt() / "facts").rglob("c1.json")}
    assert {name: fact["vllm_version"] for name, fact in facts.items()} == {"facts": "0.28.0", "image-2": "0.30.1"}
    job = _two_models(contained, images, ("vllm", "/opt/vllm/bin/other"))
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 78
    assert "'/opt/vllm/bin/other' is missing" in job.story()


def _two_models(contained: Contained, images: list[Path], executables: tuple[str, str]) -> SlurmJob:
    shared = {"resources": {"shared_node": "g", "gpus_per_node": 4}, "topology": {"tensor_parallel": 4}}
    quick = {"lead_boot_standoff": 0, "rank_launch_stagger": 0}
    deployments = [
        {
            "model_alias": alias,
            "model": f"{contained.models}/m",
            "served_model_name": alias,
            "server": quick | {"executable": executable, "image": {"path": str(path)}},
            **shared,
        }
        for alias, path, executable in zip(("m", "n"), images, executables, strict=True)
    ]
    client = {"command": ["sh", "-c", f'{_FOUR_RECORDS} >"$DD_SLURM_OUTPUT_DIR/records.jsonl"'], "cpus": 4}
    run = contained.run({}, images[0], deployments=deployments, client=client)
    return contained.submit(run, gated=False)


def test_an_image_that_is_not_there_is_told(contained: Contained) -> None:
    run = contained.run(TWO_NODES, Path("/images/none.sqsh"))
    job = contained.submit(run, gated=False)
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 78
    assert job.story().count("the image is not there") == 2, job.story()
    assert "/images/none.sqsh must be readable on every node" in job.story()


def test_no_apptainer_on_the_nodes(cluster: Cluster) -> None:
    contained = Contained(cluster, "apptainer")
    run = contained.run(TWO_NODES, image(cluster))
    job = run.submit(gated=False)
    assert job.ended() == "FAILED"
    assert job.story().count("apptainer is not installed on the node") == 2, job.story()


def test_no_pyxis_is_told_before_anything_is_submitted(pyxis: Contained) -> None:
    (pyxis.commands / "srun").unlink()
    (pyxis.commands / "srun").symlink_to("/usr/bin/srun")
    run = pyxis.run(TWO_NODES, image(pyxis.cluster))
    with pytest.raises(Exception, match="Pyxis is not installed"):
        pyxis.submit(run, gated=False)


def test_pyxis_that_is_gone_when_the_job_starts(pyxis: Contained) -> None:
    run = pyxis.run(TWO_NODES, image(pyxis.cluster), submission={"time_limit": "00:10:00"})
    real = pyxis.commands / "srun"
    text = real.read_text()
    real.write_text(text.replace("exec ", '[ -n "$SLURM_JOB_ID" ] && exec /usr/bin/srun "$@"\nexec ', 1))
    job = pyxis.submit(run, gated=False)
    assert job.ended() == "FAILED"
    assert "Pyxis is not installed" in job.log()


def test_srun_hands_on_the_path_that_a_program_has_on_its_own_host(cluster: Cluster) -> None:
    """Why a program in an image is started through ``/usr/bin/env``: only a path that holds everywhere is safe."""
    folder = cluster.folder_for("only-here")
    (folder / "program").write_text("#!/bin/sh\necho $0\n")
    (folder / "program").chmod(0o755)
    said = cluster.run(("srun", "--nodes=1", "program"), env={"PATH": f"{folder}:{PATH}"}).stdout
    assert said.strip() == f"{folder}/program"
