"""Endpoints listen on the client's host, where other jobs look for ports too: theirs are held from the bind on."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import msgspec
from returns.pipeline import is_successful

from core.outcome import Outcome
from core.plan.bound import BoundPlan
from core.plan.facts import NodeFacts
from shell.worker.port_leases import PortInUse, claim

MOST_BINDS = 6

Bind = Callable[[Sequence[NodeFacts]], Outcome[BoundPlan]]


def bind_and_hold(bind: Bind, facts: Sequence[NodeFacts], leases: ExitStack) -> Outcome[BoundPlan]:
    """A plan whose endpoint ports are ours as long as `leases` are kept.

    A port that somebody has taken since the facts were gathered counts as taken on that node, and all is planned anew.
    """
    for _ in range(MOST_BINDS):
        bound = bind(facts)
        taken = _hold(bound.unwrap(), leases) if is_successful(bound) else None
        if taken is None:
            return bound
        facts = [_without(node, taken) if index == 0 else node for index, node in enumerate(facts)]
    return bind(facts)


def _hold(bound: BoundPlan, leases: ExitStack) -> int | None:
    """The first port that somebody else has; then none is held."""
    with ExitStack() as held:
        for endpoint in bound.endpoints:
            try:
                held.enter_context(claim(endpoint.address, endpoint.port))
            except PortInUse as taken:
                return taken.port
        leases.push(held.pop_all())
    return None


def _without(node: NodeFacts, port: int) -> NodeFacts:
    return msgspec.structs.replace(node, taken_ports=tuple(sorted({*node.taken_ports, port})))
