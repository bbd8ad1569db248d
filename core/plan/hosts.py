"""Which address of a node carries traffic between nodes."""

import ipaddress
from collections.abc import Sequence

from core.plan.facts import Address, NodeFacts

_LOCAL_ONLY = ("lo", "docker", "br-", "virbr", "veth", "cni", "flannel", "podman", "lxc", "kube", "cali", "dummy")
_USUAL_LOOPBACK = ("127.0.0.1", "::1")
_FAST = ("hsn", "ib", "bond")
"""Slingshot, InfiniBand, bonded links: where a cluster has them, they are meant for this."""


def choose_addresses(facts: Sequence[NodeFacts], interface: str | None) -> tuple[Address | None, ...]:
    """One address per node; None where a node has none that fits.

    A configured interface is taken as it is; only simulated nodes, which have no interface at all, need not have it. A
    single node talks to itself only and uses loopback. Otherwise the best interface that all nodes have, so that they
    meet in one network; IPv4 before IPv6.
    """
    if interface is not None:
        configured = ([a for a in node.addresses if a.interface == interface] for node in facts)
        return tuple(_best(own or _simulated(node)) for own, node in zip(configured, facts, strict=True))
    if len(facts) == 1:
        return (_loopback(facts[0]),)
    usable = [_between_nodes(node) for node in facts]
    common = set.intersection(*({a.interface for a in addresses} for addresses in usable))
    return tuple(_best([a for a in addresses if a.interface in common] or addresses) for addresses in usable)


def _loopback(node: NodeFacts) -> Address:
    own = (a for a in node.addresses if ipaddress.ip_address(a.address).is_loopback and ":" not in a.address)
    return next(own, Address(interface="lo", address="127.0.0.1"))


def _between_nodes(node: NodeFacts) -> list[Address]:
    """Addresses that are not local to the node; a loopback of its own (a simulated node) when there is nothing else."""
    outside = [a for a in node.addresses if not a.interface.startswith(_LOCAL_ONLY)]
    return outside or [a for a in node.addresses if a.interface == "lo" and a.address not in _USUAL_LOOPBACK]


def _simulated(node: NodeFacts) -> list[Address]:
    """The loopback address of its own of a node that has nothing else; a real one has the usual loopback, too."""
    nothing_else = all(a.interface == "lo" and a.address not in _USUAL_LOOPBACK for a in node.addresses)
    return list(node.addresses) if nothing_else else []


def _best(addresses: Sequence[Address]) -> Address | None:
    return min(addresses, key=_rank, default=None)


def _rank(address: Address) -> tuple[bool, int, str]:
    fast = [index for index, prefix in enumerate(_FAST) if address.interface.startswith(prefix)]
    return ":" in address.address, fast[0] if fast else len(_FAST), address.interface
