"""What one node has to do for a step: its own slice of the plan, found by its name.

Runs inside the serving container: standard library and msgspec only.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from core.plan.bound import BoundPlan
from core.plan.own_node import matching_nodes
from core.plan.process_env import missing_secrets
from core.plan.steps import LaneOf, lanes_on
from core.units import NodeName, StepName
from shell.facts.node import own_name
from shell.store import make_folder

_LONGEST_SOCKET_PATH = 107
_SOCKET_NAME = 45
"""What vLLM puts behind VLLM_RPC_BASE_PATH: a slash, a UUID and a little more."""


class Options(NamedTuple):
    """What the command line says."""

    plan: str
    step: StepName
    tasks: str
    logs: str
    launch: int
    starter: int | None
    lease: str | None
    lease_expires_s: int | None


class Task(NamedTuple):
    """What this node has to do."""

    plan: BoundPlan
    node: NodeName
    lanes: tuple[LaneOf, ...]
    scratch: str
    options: Options


class Refused(Exception):
    """Nothing was started. `code` is the exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_task(options: Options, environ: Mapping[str, str]) -> Task:
    """This node's slice of the plan, found by the node's name, and the folders that it needs.

    Errors: `Refused`; OSError when a folder cannot be made.
    """
    plan = _read_plan(options.plan)
    own = own_name(environ)
    names = [node.name for node in plan.nodes]
    found = matching_nodes(names, own)
    if len(found) != 1:
        reason = f"could be any of {', '.join(found)}" if found else f"is not among {_some(names)}"
        raise Refused(os.EX_CONFIG, f"this node, {own!r}, {reason} in {options.plan}")
    lanes = lanes_on(plan, options.step, found[0])
    if not lanes:
        raise Refused(os.EX_CONFIG, f"step {options.step!r} has nothing to run on {found[0]!r} in {options.plan}")
    unset = sorted({name for lane in lanes for name in missing_secrets(lane, environ)})
    if unset:
        raise Refused(os.EX_CONFIG, f"not in the environment of {found[0]!r}: {', '.join(unset)}")
    make_folder(options.tasks)
    make_folder(options.logs)
    return Task(plan, found[0], lanes, _scratch(lanes, environ), options)


def _read_plan(path: str) -> BoundPlan:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=BoundPlan)
    except OSError as error:
        raise Refused(os.EX_UNAVAILABLE, f"the plan {path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(os.EX_DATAERR, f"{path} is not a bound plan: {error}") from None


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown}, … ({len(names)} nodes)"


def _scratch(lanes: Sequence[LaneOf], environ: Mapping[str, str]) -> str:
    """A new folder of this worker only, with one for each process; short, because Unix sockets are made in it."""
    longest = max(len(lane.name) for lane in lanes)
    base = environ.get("TMPDIR") or "/tmp"
    if len(base) + len("/dds-12345678/") + longest + _SOCKET_NAME > _LONGEST_SOCKET_PATH or not os.path.isdir(base):
        base = "/tmp"
    scratch = tempfile.mkdtemp(prefix="dds-", dir=base)
    for lane in lanes:
        make_folder(f"{scratch}/{lane.name}")
    return scratch
