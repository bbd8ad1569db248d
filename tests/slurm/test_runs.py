"""Whole runs on a real cluster, from `dd-slurm submit` to the winner."""

import json
import sys
from pathlib import Path

from core.supervise.verdict import Completed
from tests.local.local_run import REPOSITORY, until
from tests.slurm.cluster import Cluster
from tests.slurm.slurm_run import RESTART, TWO_NODES, SlurmRun


def test_a_replica_over_two_nodes(cluster: Cluster) -> None:
    job = SlurmRun(cluster, TWO_NODES).submit(gated=False)
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]
    assert job.record()["nodes"] == ["c1", "c2"]
    assert job.verdict() == Completed()


def test_replicas_on_all_nodes_and_a_step_for_each(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {"resources": {"nodes": 4}, "topology": {"tensor_parallel": 4}})
    job = run.submit()
    run.wait_working(job)
    steps = cluster.run(("squeue", "-s", "-h", "-j", job.id, "-o", "%j")).stdout.split()
    assert sorted(name for name in steps if name.startswith("m-")) == [f"m-{index}" for index in range(8)]
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    started = [json.loads(path.read_text()) for path in (job.attempt() / "tasks").glob("*.started.json")]
    assert sorted(record["node"] for record in started) == sorted(["c1", "c2", "c3", "c4"] * 2)


def test_every_process_has_the_mask_and_the_address_of_its_node(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {"resources": {"nodes": 2}, "topology": {"tensor_parallel": 4}})
    job = run.submit()
    run.wait_working(job)
    seen: dict[tuple[str, str], list[str]] = {}
    for index, node in enumerate(("c1", "c1", "c2", "c2")):
        record = json.loads((job.attempt() / "tasks" / f"m-{index}.1.{node}.started.json").read_text())
        (lane,) = record["lanes"]
        environ = cluster.run(("cat", f"/proc/{lane['pid']}/environ"), node=node, user="root").stdout.split("\0")
        values = dict(item.partition("=")[::2] for item in environ if item)
        seen.setdefault((node, values["VLLM_HOST_IP"]), []).append(values["CUDA_VISIBLE_DEVICES"])
        assert not [name for name in values if name.startswith(("SLURM_STEP", "SLURM_NTASKS", "SLURM_CPU", "PMI_"))]
        assert values["SLURM_JOB_ID"] == job.id
        assert values["PYTHONPATH"].startswith(f"{job.root}/bundle-")
    run.open_gate()
    assert job.ended() == "COMPLETED", job.log()
    masks = {node: sorted(found) for (node, _), found in seen.items()}
    assert masks == {"c1": ["0,1,2,3", "4,5,6,7"], "c2": ["0,1,2,3", "4,5,6,7"]}
    assert len({address for _, address in seen}) == 2


def test_an_array_has_one_winner_per_shard(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {}, invocation={"num_records": 7}, array_tasks={"count": 3})
    job = run.submit(gated=False)
    winners = [job.root / "shards" / f"{shard:05d}" / "winner.json" for shard in range(3)]
    until(lambda: all(winner.exists() for winner in winners), job.log())
    cluster.wait_idle(timeout_s=120)
    assert sorted(job.rows((0, 1, 2))) == list(range(7)), job.log()
    assert [len(job.rows((shard,))) for shard in range(3)] == [3, 2, 2]


def test_names_as_slurm_spells_them_and_unequal_gpus(odd_cluster: Cluster) -> None:
    """Mixed case, dashes, groups of digits, a node that calls itself by its full name."""
    run = SlurmRun(
        odd_cluster,
        {"resources": {"nodes": 3}, "topology": {"tensor_parallel": 2}},
        gpus_per_node=2,
    )
    job = run.submit(gated=False)
    assert job.ended() == "COMPLETED", job.log()
    assert job.record()["nodes"] == ["GPU-A1", "gpu-b-02", "rack1-n007"]


def test_a_requeued_job_goes_on_with_the_next_attempt(cluster: Cluster) -> None:
    run = SlurmRun(cluster, TWO_NODES)
    job = run.submit()
    run.wait_working(job)
    cluster.scontrol("update", f"jobid={job.id}", "requeue=1")
    cluster.scontrol("requeue", job.id)
    cluster.wait(job.id, {"PENDING", "RUNNING"})
    run.open_gate()
    assert cluster.wait(job.id, timeout_s=120) == "COMPLETED", job.log()
    assert job.record(1)["state"] == "INTERRUPTED"
    assert job.record(2)["state"] == "COMPLETED"
    assert sorted(job.rows()) == [0, 1, 2, 3]


def test_facts_of_all_nodes_are_judged_before_any_server_starts(cluster: Cluster) -> None:
    run = SlurmRun(cluster, {"resources": {"nodes": 4}, "topology": {"tensor_parallel": 8}, "model": "/local/model"})
    job = run.submit(gated=False)
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 78
    story = job.story()
    assert all(f"node {node}" in story for node in cluster.nodes), story
    assert "'/local/model' is missing" in story
    assert "nothing was started" in story
    assert not list((job.attempt() / "tasks").iterdir())


def test_two_jobs_share_all_nodes_and_each_finds_its_own_servers(cluster: Cluster) -> None:
    """Half of the GPUs of every node each, at the same time: ports and answers must not mix."""
    runs = [
        SlurmRun(cluster, {"resources": {"nodes": 4}, "topology": {"tensor_parallel": 4}}, gpus_per_node=4)
        for _ in range(2)
    ]
    jobs = [run.submit() for run in runs]
    for run, job in zip(runs, jobs, strict=True):
        run.wait_working(job)
    ports: list[tuple[int, int]] = []
    for job in jobs:
        bound = json.loads((job.attempt() / "bound-0001.json").read_text())
        (deployment,) = bound["deployments"]
        lanes = [lane for replica in deployment["replicas"] for lane in replica["lanes"]]
        ports += [(lane["slot"], lane["role"]["http_port"]) for lane in lanes]
    assert len(set(ports)) == len(ports) == 8
    for run, job in zip(runs, jobs, strict=True):
        run.open_gate()
        assert job.ended_alone() == "COMPLETED", job.log()
        assert sorted(job.rows()) == [0, 1, 2, 3]
    cluster.wait_idle()


def test_the_controller_inside_a_step(cluster: Cluster) -> None:
    """What an outer step leaves in the environment steers none of ours."""
    run = SlurmRun(cluster, TWO_NODES)
    job = run.submit_script("srun --overlap -N1 -n1 --cpu-bind=none --export=ALL {command}", gated=False)
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]


def test_an_allocation_with_more_nodes_than_needed(cluster: Cluster) -> None:
    run = SlurmRun(cluster, TWO_NODES)
    job = run.submit_script("exec {command}", "--nodes=4", gated=False)
    assert job.ended() == "COMPLETED", job.log()
    assert job.record()["nodes"] == ["c1", "c2"]


def test_an_allocation_with_fewer_nodes_than_planned(cluster: Cluster) -> None:
    run = SlurmRun(cluster, TWO_NODES)
    job = run.submit_script("exec {command}", "--nodes=1", gated=False)
    assert job.ended() == "FAILED"
    assert job.record()["exit_code"] == 78
    assert "2 nodes" in job.story()
    assert "nothing was started" in job.story()


def test_every_sick_node_is_named_with_all_that_is_wrong(cluster: Cluster) -> None:
    """The model is hidden on one node, and another one has little shared memory."""
    run = SlurmRun(cluster, {"resources": {"nodes": 4}, "topology": {"tensor_parallel": 8}})
    cluster.run(("mount", "-t", "tmpfs", "-o", "mode=0", "none", str(run.model)), node="c3", user="root")
    cluster.run(("mount", "-o", "remount,size=64m", "/dev/shm"), node="c2", user="root")
    try:
        job = run.submit(gated=False)
        assert job.ended() == "FAILED"
    finally:
        cluster.run(("umount", str(run.model)), node="c3", user="root")
        cluster.run(("mount", "-o", "remount,size=8g", "/dev/shm"), node="c2", user="root")
    story = job.story()
    assert "node c2: /dev/shm is 64 MiB" in story, story
    assert f"node c3: {str(run.model)!r} is unreadable" in story, story
    assert "2 problems, nothing was started" in story
    assert "node c1:" not in story
    assert "node c4:" not in story


def test_a_port_that_no_fact_shows_is_given_up_for_another(cluster: Cluster) -> None:
    run = SlurmRun(cluster, RESTART, profile={"ports": {"range": [20000, 20999]}})
    hold = f"{sys.executable} {Path(__file__).with_name('hold_port.py')} 20000 20999"
    wait = f"until [ -s {run.gate}/held ]; do sleep 0.1; done"
    line = f"PYTHONPATH={REPOSITORY} {hold} >{run.gate}/held &\n{wait}\nexec {{command}}"
    job = run.submit_script(line, "--nodes=1", gated=False)
    assert job.ended() == "COMPLETED", job.log()
    assert sorted(job.rows()) == [0, 1, 2, 3]
    assert (job.attempt() / "bound-0002.json").exists(), job.log()
    assert "is taken" in job.story()
