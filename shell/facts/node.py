"""What this node says about itself: reports instead of failing, so that all nodes can be judged together.

Runs inside the serving container: standard library and msgspec only.
"""

import concurrent.futures
import os
import platform
import sys
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from core.layout import node_facts
from core.plan.facts import Address, Devices, FactsRequest, NodeFacts, PathFact, PathWanted
from core.units import NodeName
from shell.facts import devices, limits, network, sockets, versions
from shell.facts.hub import hub_facts
from shell.facts.paths import path_facts
from shell.facts.weights import with_weights
from shell.store import make_folder, write_atomic


class Rehearsed(NamedTuple):
    """What a rehearsal says instead of asking the system; None asks it."""

    address: str | None = None
    devices: int | None = None


def report_facts(request_path: str, rehearsed: Rehearsed, environ: Mapping[str, str]) -> int:
    """Write the facts of this node where the request wants them.

    Errors: 69 when the request cannot be read, 65 when it is none, 69 when the answer cannot be written.
    """
    try:
        with open(request_path, "rb") as file:
            request = msgspec.json.decode(file.read(), type=FactsRequest)
        node = own_name(environ)
        facts = gather(request, node, rehearsed, environ)
        make_folder(request.output_dir)
        write_atomic(node_facts(request.output_dir, node), msgspec.json.encode(facts))
    except msgspec.DecodeError as error:
        print(f"node: {request_path} is not a request for facts: {error}", file=sys.stderr)
        return os.EX_DATAERR
    except OSError as error:
        print(f"node: {error.filename or request_path}: {error.strerror}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    return os.EX_OK


def own_name(environ: Mapping[str, str]) -> NodeName:
    """Slurm's name of this node; what the node calls itself where Slurm does not say."""
    return NodeName(environ.get("SLURMD_NODENAME") or os.uname().nodename)


def gather(request: FactsRequest, node: NodeName, rehearsed: Rehearsed, environ: Mapping[str, str]) -> NodeFacts:
    """Everything at once; what may hang has a deadline of its own."""
    found = tuple(_find_executable(name, environ) for name in request.executables)
    wanted = (*request.paths, *(one for one in found if isinstance(one, PathWanted)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        version = pool.submit(_version, request, found)
        states = iter(path_facts(wanted))
        paths = [next(states) for _ in request.paths]
        paths += [one if isinstance(one, PathFact) else next(states) for one in found]
        low, high = sockets.ephemeral_range()
        soft, hard = limits.open_files()
        return NodeFacts(
            node=node,
            hostname=os.uname().nodename,
            addresses=_addresses(rehearsed),
            ephemeral_low=low,
            ephemeral_high=high,
            taken_ports=sockets.listening_ports(),
            devices=_devices(rehearsed, environ),
            cpus=limits.usable_cpus(),
            memory_mib=limits.memory_mib(),
            shm_mib=limits.shm_mib(),
            nofile_soft=soft,
            nofile_hard=hard,
            python_version=platform.python_version(),
            vllm_version=version.result(),
            paths=tuple(with_weights(paths)),
            hub=tuple(hub_facts(request.hub, environ)),
        )


def _find_executable(name: str, environ: Mapping[str, str]) -> PathWanted | PathFact:
    if "/" in name:
        return PathWanted(path=name, kind="executable")
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return PathWanted(path=candidate, kind="executable")
    return PathFact(path=name, kind="executable", state="missing", detail=f"not on PATH: {environ.get('PATH', '')}")


def _version(request: FactsRequest, found: tuple[PathWanted | PathFact, ...]) -> str | None:
    if not request.ask_vllm_version or not found or isinstance(found[0], PathFact):
        return None
    return versions.vllm_version(found[0].path)


def _addresses(rehearsed: Rehearsed) -> tuple[Address, ...]:
    if rehearsed.address is not None:
        return (Address(interface="lo", address=rehearsed.address),)
    return network.own_addresses()


def _devices(rehearsed: Rehearsed, environ: Mapping[str, str]) -> Devices:
    if rehearsed.devices is None:
        return devices.granted_devices(environ)
    mask = ",".join(map(str, range(rehearsed.devices)))
    return Devices(variable="CUDA_VISIBLE_DEVICES", mask=mask, present=None)
