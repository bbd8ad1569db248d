"""Names and quantities that must not be mixed up. Arithmetic on them gives plain numbers back."""

from typing import NewType

NodeName = NewType("NodeName", str)
"""A node in Slurm's spelling, which is case-sensitive: the only name that `--nodelist` accepts."""

Alias = NewType("Alias", str)
"""What a Data Designer config calls a model; one deployment and one endpoint each."""

StepName = NewType("StepName", str)
"""One job step of ours, for example ``writer-0``. Unique in an attempt."""

Port = NewType("Port", int)

MonotonicMs = NewType("MonotonicMs", int)
"""A point in time of a clock that never jumps. Durations are plain `int` fields ending in ``_ms``."""
