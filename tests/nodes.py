"""Made-up nodes for tests: what `shell.node facts` would say about ordinary machines."""

from collections.abc import Mapping

import msgspec

from core.plan.facts import NodeFacts


def node(name: str, index: int = 0, gpus: int = 8, **different: object) -> NodeFacts:
    """An ordinary node with `gpus` GPUs and two interfaces; fields of `NodeFacts` can be given otherwise."""
    ordinary: Mapping[str, object] = {
        "node": name,
        "hostname": name,
        "addresses": [
            {"interface": "lo", "address": "127.0.0.1"},
            {"interface": "docker0", "address": "172.17.0.1"},
            {"interface": "ib0", "address": f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"},
        ],
        "ephemeral_low": 32768,
        "ephemeral_high": 60999,
        "taken_ports": [22, 111, 6818],
        "devices": {
            "variable": "CUDA_VISIBLE_DEVICES",
            "mask": ",".join(map(str, range(gpus))),
            "present": gpus,
        },
        "cpus": 64,
        "memory_mib": 515_000,
        "shm_mib": 257_000,
        "nofile_soft": 1024,
        "nofile_hard": 1_048_576,
        "python_version": "3.12.3",
        "vllm_version": "0.28.0",
        "paths": [],
    }
    return msgspec.convert({**ordinary, **different}, NodeFacts)
