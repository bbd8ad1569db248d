"""Why a node did not report: from what its job step printed."""

import re
from collections.abc import Sequence

from core.plan.rounds import FactsRound
from core.problem import At, FactsMissing
from core.slurm.srun_says import read_srun_line
from core.units import NodeName
from core.vllm.diagnose import diagnose

_STEP_DAEMON = re.compile(r"slurmstepd-(?P<node>[^\s:]+): ")
_LONGEST = 300


def why_silent(node: NodeName, asked: FactsRound, log: str, lines: Sequence[str]) -> FactsMissing:
    """`lines` is the end of the step's log, `log` its name. Lines that speak of other nodes do not count."""
    at = At(source=f"node {node}")
    own = [line for line in lines if _speaks_of(line) in (None, node)]
    where = f" in the container of {asked.image}" if asked.image else ""
    found = diagnose(own)
    if found is not None:
        reason = f"{found.title} ({log}: {found.evidence[:_LONGEST]})"
        return FactsMissing(at=at, reason=reason, advice=found.hint)
    last = next((line for line in reversed(own) if line.strip() and read_srun_line(line) is None), None)
    return FactsMissing(at=at, reason=f"{log}: {last[:_LONGEST]}" if last else f"no facts file{where}")


def _speaks_of(line: str) -> str | None:
    """The only node that a line is about."""
    found = _STEP_DAEMON.match(line)
    if found:
        return found["node"]
    ended = read_srun_line(line)
    return ended.nodes[0] if ended is not None and len(ended.nodes) == 1 else None
