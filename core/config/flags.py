"""Flags that dd-slurm sets itself, and how one recognises them in an author's list of arguments.

argparse, which vLLM's parser is built on, takes every unique beginning of a flag (``--tensor``), ``_`` for ``-`` and
``--no-`` for switches; vLLM's parser also takes ``--flag.key=value``. All of these are the flag. A flag of its own
that happens to begin like an owned one (``--reasoning-parser``) is not.

Source: `vllm serve --help` of 0.10.2 to 0.33; `srun --help` of 21.08 to 25.11.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """Which flags are owned. Each name leads to the field to use instead, or to None."""

    names: tuple[tuple[str, str | None], ...]
    beginnings: tuple[tuple[str, str | None], ...] = ()
    free: tuple[str, ...] = ()
    """Flags that look like an abbreviation of an owned one and are flags of their own."""


def _owned(fields: Mapping[str, str | None]) -> tuple[tuple[str, str | None], ...]:
    return tuple(fields.items())


VLLM = Owned(
    names=_owned(
        {
            "model": "model of the deployment",
            "served-model-name": "served_model_name of the deployment",
            "tensor-parallel-size": "topology.tensor_parallel",
            "pipeline-parallel-size": "topology.pipeline_parallel",
            "data-parallel-size": "topology.data_parallel",
            "enable-expert-parallel": "topology.expert_parallel",
            "nnodes": "topology.nodes_per_replica",
            "node-rank": None,
            "distributed-executor-backend": "server.executor",
            "distributed-timeout-seconds": "server.distributed_init_timeout",
            "cpu-distributed-timeout-seconds": "server.distributed_init_timeout",
            "io-processor-plugin": "server.io_processor_plugin",
            "device-ids": "resources.gpu_start_index",
            "host": None,
            "port": "ports.range of the profile",
            "uds": None,
            "grpc": None,
            "grpc-port": None,
            "root-path": None,
            "headless": None,
            "api-key": None,
            "middleware": None,
            "config": "extra_args for each flag",
            "enable-ssl-refresh": None,
            "enable-elastic-ep": None,
            "enable-lora": None,
            "lora-modules": None,
            "default-mm-loras": None,
            "max-loras": None,
            "max-cpu-loras": None,
            "tool-parser-plugin": None,
            "reasoning-parser-plugin": None,
            "logits-processors": None,
            "worker-cls": None,
            "worker-extension-cls": None,
            "kv-transfer-config": None,
            "ec-transfer-config": None,
            "kv-events-config": None,
            "weight-transfer-config": None,
            "help": None,
            "version": None,
        }
    ),
    beginnings=_owned(
        {
            "tensor-parallel-": "topology.tensor_parallel",
            "pipeline-parallel-": "topology.pipeline_parallel",
            "data-parallel-": "topology.data_parallel",
            "decode-context-parallel-": None,
            "prefill-context-parallel-": None,
            "distributed-": None,
            "master-": None,
            "dp-supervisor-": None,
            "api-server-": None,
            "elastic-ep-": None,
            "ssl-": None,
        }
    ),
    free=("reasoning-parser",),
)

SRUN = Owned(
    names=_owned(
        {
            "nodes": "resources.nodes of a deployment",
            "ntasks": None,
            "nodelist": None,
            "exclude": None,
            "relative": None,
            "jobid": None,
            "overlap": None,
            "exact": None,
            "exclusive": None,
            "export": "server.environment of a deployment",
            "export-file": "server.environment of a deployment",
            "output": None,
            "error": None,
            "input": None,
            "label": None,
            "job-name": "submission.job_name of the run file",
            "account": "submission.account of the run file",
            "partition": "submission.partition of the run file",
            "time": "submission.time_limit of the run file",
            "array": "array_tasks of the run file",
            "chdir": None,
            "kill-on-bad-exit": None,
            "wait": None,
            "no-kill": None,
            "mpi": None,
            "multi-prog": None,
            "pty": None,
            "signal": None,
            "gres": "gpus_per_node of the profile",
            "gpus": "gpus_per_node of the profile",
            "mem": "scheduler.mem_per_gpu of the profile",
            "cpus-per-task": "client.cpus of the run file",
            "container-image": "server.image of a deployment",
            "container-name": None,
            "container-mounts": "container_mounts of the profile",
            "container-env": "server.environment of a deployment",
            "container-workdir": None,
            "container-mount-home": "container_mounts of the profile",
            "no-container-mount-home": None,
            "container-entrypoint": None,
            "no-container-entrypoint": None,
            "help": None,
            "version": None,
            "usage": None,
        }
    ),
    beginnings=_owned(
        {
            "ntasks-per-": None,
            "gpus-per-": "gpus_per_node of the profile",
            "mem-per-": "scheduler.mem_per_gpu of the profile",
        }
    ),
)


def flag_name(word: str) -> str | None:
    """``max-model-len`` of ``--max_model_len=8192``; None when the word is no long flag."""
    found = re.fullmatch(r"--([A-Za-z][A-Za-z0-9._-]*)(=.*)?", word, re.DOTALL)
    return found[1].replace("_", "-").lower() if found else None


def bare_name(name: str) -> str:
    """The name that a flag's duplicates share: ``--no-x`` and ``--x`` are one flag."""
    return name.removeprefix("no-")


def owner(name: str, owned: Owned) -> tuple[str, str | None] | None:
    """The owned flag that this one is or abbreviates, and what to use instead; None for a flag that is free."""
    base = name.partition(".")[0]
    for spelling in (base, base.removeprefix("no-")):
        if spelling in owned.free:
            continue
        exact = [item for item in owned.names if item[0] == spelling]
        family = [item for item in owned.beginnings if spelling.startswith(item[0])]
        longer = [item for item in (*owned.names, *owned.beginnings) if spelling and item[0].startswith(spelling)]
        for full, instead in (*exact, *family, *longer):
            return full.rstrip("-"), instead
    return None


def misplaced_words(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Words that are neither a long flag nor a value after one, with what is wrong."""
    for index, word in enumerate(words):
        if word == "--":
            yield index, "the end of flags '--'"
        elif word.startswith("--") and flag_name(word) is None:
            yield index, f"{_name_only(word)!r}"
        elif word.startswith("-") and not word.startswith("--"):
            yield index, f"the short flag {_name_only(word)!r}"
        elif index == 0 and not word.startswith("-"):
            yield index, "a value without a flag before it"


def _name_only(word: str) -> str:
    return re.split(r"[=\s]", word, maxsplit=1)[0][:40] + ("" if re.fullmatch(r"[^=\s]+", word) else " …")
