"""Ports of endpoints are ours from the bind on, whatever has happened since facts were gathered."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec
import pytest
from returns.pipeline import is_successful
from returns.result import Success

from core.outcome import Outcome
from core.plan.bound import BoundEndpoint, BoundPlan
from core.plan.facts import NodeFacts
from core.units import Alias, Port
from shell.attempt.endpoint_ports import MOST_BINDS, bind_and_hold
from shell.worker.port_leases import PortInUse, claim
from tests.nodes import node
from tests.shell.node_world import free_port, plan_of


class Binder:
    """Gives the endpoint the first of `ports` that the facts do not call taken."""

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.seen: list[tuple[int, ...]] = []

    def __call__(self, facts: Sequence[NodeFacts]) -> Outcome[BoundPlan]:
        self.seen.append(facts[0].taken_ports)
        port = next(port for port in self.ports if port not in facts[0].taken_ports)
        endpoint = BoundEndpoint(alias=Alias("m"), address="127.0.0.1", port=Port(port))
        return Success(msgspec.structs.replace(plan_of(["c1"], [0]), endpoints=(endpoint,)))


def _two_ports() -> tuple[int, int]:
    first = free_port("127.0.0.1")
    with socket.socket() as held:
        held.bind(("127.0.0.1", first))
        return first, free_port("127.0.0.1")


def test_a_port_is_held_until_the_leases_are_given_back() -> None:
    port = free_port("127.0.0.1")
    with ExitStack() as leases:
        assert is_successful(bind_and_hold(Binder(port), [node("c1")], leases))
        with pytest.raises(PortInUse):
            claim("127.0.0.1", port)
        with pytest.raises(PortInUse), ExitStack():
            claim("0.0.0.0", port)
    claim("127.0.0.1", port).close()


def test_another_port_where_somebody_was_quicker() -> None:
    first, second = _two_ports()
    binder = Binder(first, second)
    with claim("0.0.0.0", first), ExitStack() as leases:
        bound = bind_and_hold(binder, [node("c1")], leases).unwrap()
        assert bound.endpoints[0].port == second
        assert first in binder.seen[-1]
    claim("127.0.0.1", second).close()


def test_it_comes_to_an_end() -> None:
    port = free_port("127.0.0.1")
    binds = 0

    def always_the_same(facts: Sequence[NodeFacts]) -> Outcome[BoundPlan]:
        nonlocal binds
        binds += 1
        return Binder(port)([node("c1")])

    with claim("127.0.0.1", port), ExitStack() as leases:
        bind_and_hold(always_the_same, [node("c1")], leases)
    assert binds == MOST_BINDS + 1
