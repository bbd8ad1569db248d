"""What planning costs from 64 to 10,240 nodes of 8 GPUs, ours and the peer's: ``python -m bench.planning``.

Ours: plan, bind and encode. The peer's: compile, resolve, specifications of the node workers and manifest, on the same
nodes in the same run; as shipped it refuses the larger ones, and its bound is lifted to measure. Then what one node
worker needs until it can start its servers. All figures are CPU time, the smallest of a few repetitions.
"""

import argparse
import gc
import json
import math
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.peer import add_peer_option, find_peer
from core.codec import compact_json
from core.config.located import Located
from core.config.profile import Profile
from core.config.run_config import Deployment, Invocation, Resources, RunConfig, Topology
from core.plan.bind import bind
from core.plan.bound import Attempt, BoundPlan
from core.plan.facts import Address, Devices, NodeFacts
from core.plan.process_env import process_environment
from core.plan.run_plan import plan_run
from core.plan.steps import lanes_on, step_name
from core.units import NodeName
from core.vllm.serve_args import serve_argv

GPUS = 8
SIZES = (64, 256, 1024, 10_240)
PEER_AT_MOST = 1024
"""The peer's time at TP 1 grows with more than the square of the nodes: 10,240 of them would take hours."""


class Shape(NamedTuple):
    """How a model is spread: tensor parallel in a node, and nodes per replica."""

    tensor: int
    nodes: int

    @property
    def text(self) -> str:
        return f"TP {self.tensor} PP {self.nodes}" if self.nodes > 1 else f"TP {self.tensor}"


SHAPES = (Shape(8, 2), Shape(1, 1))


class Row(NamedTuple):
    """One line of the table. `peer_s` is None where the peer was not measured."""

    shape: Shape
    nodes: int
    ours_s: float
    plan_bytes: int
    worker_s: float
    peer_s: float | None


def node_facts(count: int) -> tuple[NodeFacts, ...]:
    """What healthy nodes report."""
    return tuple(
        NodeFacts(
            node=NodeName(f"n{index:05d}"),
            hostname=f"n{index:05d}",
            addresses=(
                Address(interface="lo", address="127.0.0.1"),
                Address(interface="ib0", address=f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"),
            ),
            ephemeral_low=32_768,
            ephemeral_high=60_999,
            taken_ports=(22, 111, 6817, 6818),
            devices=Devices(variable="CUDA_VISIBLE_DEVICES", mask=",".join(map(str, range(GPUS))), present=GPUS),
            cpus=64,
            memory_mib=512_000,
            shm_mib=100_000,
            nofile_soft=1024,
            nofile_hard=1_048_576,
            python_version="3.12",
            vllm_version="0.24.0",
            paths=(),
        )
        for index in range(count)
    )


def planner(nodes: int, shape: Shape) -> Callable[[], bytes]:
    """Plan, bind and encode for these nodes: gives the plan file."""
    config = RunConfig(
        schema_version=1,
        name="bench",
        deployments=(
            Deployment(
                model_alias="writer",
                model="/models/writer",
                resources=Resources(nodes=nodes),
                topology=Topology(tensor_parallel=shape.tensor, nodes_per_replica=shape.nodes),
            ),
        ),
        invocation=Invocation(num_records=100),
    )
    facts = node_facts(nodes)
    hosts = tuple(node.node for node in facts)
    attempt = Attempt(run_id="bench", shard=0, number=1, job_id="4711")

    def plan() -> bytes:
        site = Profile(workspace_root="/workspace", gpus_per_node=GPUS)
        planned = plan_run(Located(value=config, source="run.yaml"), "bench", site).unwrap()
        return compact_json(bind(planned, hosts, facts, attempt, "/bundle").unwrap())

    return plan


def one_worker(encoded: bytes) -> int:
    """What a worker on the last node does before it starts servers; gives how many it would start."""
    plan = msgspec.json.decode(encoded, type=BoundPlan)
    deployment = plan.deployments[-1]
    lanes = lanes_on(plan, step_name(deployment, deployment.replicas[-1].index), plan.nodes[-1].name)
    for lane in lanes:
        serve_argv(plan, lane)
        process_environment(plan, lane, {"PATH": "/usr/bin"}, "/tmp/scratch")
    return len(lanes)


def cpu_seconds(work: Callable[[], object], repetitions: int) -> float:
    """The smallest CPU time of a few repetitions, with the garbage collector on as it is in use."""
    return min(_once(work) for _ in range(repetitions))


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def peer_seconds(python: str, nodes: int, shape: Shape) -> float:
    """The peer's CPU time on the same nodes, once."""
    script = Path(__file__).with_name("peer_planning.py")
    argv = [python, str(script), str(nodes), str(shape.tensor), str(shape.nodes)]
    figures = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return float(figures["compile"] + figures["manifest"])


def measure(nodes: int, shape: Shape, peer: str | None, repetitions: int) -> Row:
    """One line of the table."""
    plan = planner(nodes, shape)
    encoded = plan()
    return Row(
        shape=shape,
        nodes=nodes,
        ours_s=cpu_seconds(plan, repetitions),
        plan_bytes=len(encoded),
        worker_s=cpu_seconds(lambda: one_worker(encoded), repetitions),
        peer_s=peer_seconds(peer, nodes, shape) if peer and nodes <= PEER_AT_MOST else None,
    )


def growth(first: tuple[int, float], last: tuple[int, float]) -> float:
    """The exponent x of cost ~ nodes^x between two measurements."""
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def table(rows: Sequence[Row]) -> str:
    """The rows, then how the cost grows, per shape."""
    lines = ["| shape | nodes | ours, ms | plan, KiB | one worker, ms | peer, ms | ratio |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        peer = "" if row.peer_s is None else f"{row.peer_s * 1000:,.0f}"
        ratio = "" if row.peer_s is None else f"{row.peer_s / row.ours_s:,.0f}"
        ours = f"{row.ours_s * 1000:,.1f} | {row.plan_bytes / 1024:,.0f} | {row.worker_s * 1000:,.1f}"
        lines.append(f"| {row.shape.text} | {row.nodes:,} | {ours} | {peer} | {ratio} |")
    shapes = dict.fromkeys(row.shape for row in rows)
    grown = [f"\n{shape.text}: {_growths([row for row in rows if row.shape == shape])}" for shape in shapes]
    return "\n".join([*lines, *grown])


def _growths(rows: Sequence[Row]) -> str:
    ours = [(row.nodes, row.ours_s) for row in rows]
    peer = [(row.nodes, row.peer_s) for row in rows if row.peer_s is not None]
    texts = [f"{who} nodes^{growth(of[0], of[-1]):.2f}" for who, of in (("ours", ours), ("peer", peer)) if len(of) > 1]
    return ", ".join(texts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.planning", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=SIZES, help="numbers of nodes, all of them even")
    parser.add_argument("--repetitions", type=int, default=3)
    add_peer_option(parser)
    options = parser.parse_args(arguments)
    peer = find_peer(options.peer)
    rows = [measure(nodes, shape, peer, options.repetitions) for shape in SHAPES for nodes in options.nodes]
    print(table(rows))


if __name__ == "__main__":
    main()
