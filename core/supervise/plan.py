"""What the supervisor must know of a bound plan.

A *unit* is one server step: the failure domain. A *launch* is one start of a unit or of an endpoint, counted from 1.
"""

from typing import Literal

import msgspec

from core.units import Alias, StepName


class DeploymentRule(msgspec.Struct, frozen=True, kw_only=True):
    """The units of one model and what happens when one fails."""

    alias: Alias
    units: tuple[StepName, ...]
    startup_timeout_ms: int
    policy: Literal["fail", "restart"]
    max_restarts: int
    backoff_ms: int
    min_ready: int
    """Units that must be able to serve; when fewer can, the attempt ends."""
    nodes_together: int = 1
    """Nodes whose processes must meet before a replica can be ready."""


class SupervisePlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that the supervisor must know of a bound plan."""

    deployments: tuple[DeploymentRule, ...]
    grace_ms: int
    """From TERM to KILL, for each of client, endpoints and servers."""
    probe_every_ms: int
    endpoint_restarts: int
    port_retries: int
    """How often a unit may be launched anew because a port was taken, without counting as a restart."""
    prepare_timeout_ms: int
    """For the client to read its config, and for an endpoint to listen."""
    judge_timeout_ms: int
    """For the look at the client's result, which reads all its files."""
