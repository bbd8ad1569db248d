"""Addresses of this node with the interface that carries each.

Runs inside the serving container: standard library only.
"""

import fcntl
import socket
import struct
from collections.abc import Iterator

from core.plan.facts import Address

_SIOCGIFCONF = 0x8912
_IFREQ = 40
"""Size of ``struct ifreq`` on 64-bit Linux: 16 bytes of name, then the address."""
_LINK_LOCAL_SCOPE = "20"


def own_addresses() -> tuple[Address, ...]:
    """IPv4, then IPv6, by interface and address. Link-local ones are left out, and interfaces that are down."""
    return tuple(sorted(_ipv4(), key=_order)) + tuple(sorted(_ipv6(), key=_order))


def _order(address: Address) -> tuple[str, str]:
    return address.interface, address.address


def _ipv4() -> Iterator[Address]:
    """Every address of every interface that is up, second addresses too (their label ``eth0:1`` is cut to ``eth0``)."""
    import array

    room = array.array("B", bytes(_IFREQ * 1024))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        question = struct.pack("iL", len(room), room.buffer_info()[0])
        size = struct.unpack("iL", fcntl.ioctl(asked.fileno(), _SIOCGIFCONF, question))[0]
    answer = room.tobytes()[:size]
    for start in range(0, size, _IFREQ):
        name = answer[start : start + 16].partition(b"\0")[0].decode().partition(":")[0]
        address = socket.inet_ntoa(answer[start + 20 : start + 24])
        if not address.startswith("169.254."):
            yield Address(interface=name, address=address)


def _ipv6() -> Iterator[Address]:
    try:
        with open("/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
    except OSError:
        return
    for raw, _, _, scope, _, interface in rows:
        if scope != _LINK_LOCAL_SCOPE:
            yield Address(interface=interface, address=socket.inet_ntop(socket.AF_INET6, bytes.fromhex(raw)))
