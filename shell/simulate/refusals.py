"""What vLLM refuses at start, in its words: so that a rehearsal finds a wrong command line. Standard library only.

Found with the real parser and the real config classes of vLLM 0.32 (0.11.1 and later refuse the same).
"""

import os
from collections.abc import Iterator

from shell.simulate.options import Options

_LAUNCH = "ValueError: Invalid data-parallel launch options:"


def refusal(options: Options) -> str | None:
    """Why vLLM would not start with these options on this node; None when it would."""
    return next(_refusals(options), None)


def _refusals(options: Options) -> Iterator[str]:
    nodes, rank, world = options.nodes, options.number("--node-rank", 0), options.model_ranks * options.data
    backend = options.text("--distributed-executor-backend", "mp")
    if min(nodes, world, options.longest) < 1:
        yield "ValidationError: nnodes and all sizes should be greater than or equal to 1"
        return
    if nodes > 1 and world % nodes:
        yield f"{_LAUNCH} `--nnodes {nodes}` must evenly divide the total world size ({world})."
    if nodes > 1 and not 0 <= rank < nodes:
        yield f"{_LAUNCH} `--node-rank` must be between 0 and {nodes - 1}; got `--node-rank {rank}`."
    if nodes > 1 and backend not in ("mp", "uni", "external_launcher"):
        yield "ValueError: nnodes > 1 needs a distributed executor backend of mp, uni or external_launcher."
    if options.local_data > options.data:
        yield f"ValueError: data_parallel_size_local ({options.local_data}) must be <= {options.data}"
    if backend == "uni" and options.number("--pipeline-parallel-size", 1) > 1:
        yield "NotImplementedError: Pipeline Parallelism without Ray distributed executor or multiprocessing executor"
    yield from _placing(options)


def _placing(options: Options) -> Iterator[str]:
    nodes_of_rank = max(1, options.nodes // options.data)
    if not options.headless and options.number("--node-rank", 0) % nodes_of_rank and options.nodes > 1:
        yield "AssertionError: collective_rpc should not be called on follower node"
    if options.headless and options.number("--api-server-count", 0):
        yield "ValueError: --api-server-count cannot be set in headless mode"
    if "--data-parallel-hybrid-lb" in options.given and "--data-parallel-size-local" not in options.given:
        yield f"{_LAUNCH} `--data-parallel-hybrid-lb` requires `--data-parallel-size-local`."
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if devices and len(devices.split(",")) < options.local_ranks:
        yield f"ValueError: World size ({options.local_ranks}) is larger than the number of available GPUs ({devices})"
