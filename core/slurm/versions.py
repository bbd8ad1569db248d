"""What Slurm can do, per release. A release that is newer than the table is taken for the newest one in it.

Source: man pages and release notes of 20.02 to 26.05 and the change logs of their maintenance releases.
"""

import re
from typing import Literal, TypeAlias

import msgspec
from returns.result import Success

from core.outcome import Outcome, refuse
from core.problem import At, VersionUnfit

Feature: TypeAlias = Literal[
    "overlap-shares-gres",  # --overlap shares memory and GRES too, not CPUs only
    "gres-none",  # --gres=none always takes effect
    "cpus-per-task-inherited",  # srun reads SLURM_CPUS_PER_TASK
    "tres-per-task",  # srun --tres-per-task
    "export-nil",  # sbatch --export=NIL
    "sacct-array",  # sacct --array
    "end-time-variable",  # SLURM_JOB_END_TIME in the job
    "external-launcher",  # srun --external-launcher
    "state-list-in-json",  # job_state is a list in --json
    "expand-patterns",  # squeue and sacct --expand-patterns
    "segment",  # sbatch --segment
    "wait-for-children",  # srun --wait-for-children
    "term-on-bad-exit",  # --kill-on-bad-exit sends TERM before KILL
]


class SlurmVersion(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A release, for example 22.05.8: year, month, maintenance."""

    year: int
    month: int
    micro: int = 0

    @property
    def text(self) -> str:
        """As Slurm writes it, without packaging."""
        return f"{self.year}.{self.month:02d}.{self.micro}"

    def has(self, feature: Feature) -> bool:
        """Whether this release can do that."""
        return any(since <= self and (until is None or self < until) for since, until in _SPANS[feature])


def _release(year: int, month: int, micro: int = 0) -> SlurmVersion:
    return SlurmVersion(year=year, month=month, micro=micro)


OLDEST = _release(20, 11)
"""Before, srun has neither --overlap nor --exact, and two of our steps could not share a node."""
NEWEST = _release(26, 5)

_SPANS: dict[Feature, tuple[tuple[SlurmVersion, SlurmVersion | None], ...]] = {
    "overlap-shares-gres": ((_release(22, 5), None),),
    "gres-none": ((OLDEST, _release(23, 2)), (_release(23, 2, 5), None)),
    "cpus-per-task-inherited": ((OLDEST, _release(22, 5)), (_release(23, 11), None)),
    "tres-per-task": ((_release(23, 2), None),),
    "export-nil": ((_release(23, 2, 3), None),),
    "sacct-array": ((_release(23, 2), None),),
    "end-time-variable": ((_release(23, 2), None),),
    "external-launcher": ((_release(23, 11), None),),
    "state-list-in-json": ((_release(23, 11), None),),
    "expand-patterns": ((_release(24, 5), None),),
    "segment": ((_release(24, 5), None),),
    "wait-for-children": ((_release(25, 5), None),),
    "term-on-bad-exit": ((_release(26, 5), None),),
}
_VERSION = re.compile(r"(?<![0-9.])([0-9]{2})\.([0-9]{2})(?:\.([0-9]{1,4}))?(?![0-9])")


def parse_slurm_version(text: str, at: At) -> Outcome[SlurmVersion]:
    """The release in the output of ``srun --version`` or in a profile: ``slurm-wlm 22.05.8``, ``23.11``, ``23.02.3-1``.

    Errors: `VersionUnfit` for text without a version, and for releases before 20.11.
    """
    found = _VERSION.search(text)
    version = _release(int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
    if version is None or version < OLDEST:
        shown = repr(text.strip()[:80]) if version is None else f"Slurm {version.text}"
        return refuse(VersionUnfit(at=at, found=shown, expected="Slurm 20.11 or newer"))
    return Success(version)
