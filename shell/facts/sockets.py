"""What the kernel says about TCP ports of this node. Runs inside the serving container: standard library only."""

import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

LISTEN = "0A"
TIME_WAIT = "06"


class TcpEntry(NamedTuple):
    """One row of ``/proc/net/tcp``. `inode` is "0" for remains that no process owns any more."""

    address: str
    port: int
    state: str
    inode: str


def tcp_entries() -> Iterator[TcpEntry]:
    """Every TCP socket of this network namespace that the kernel shows; bound ones that do not listen are not shown."""
    for path, family in (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6)):
        try:
            with open(path) as file:
                next(file, None)
                yield from (_entry(line, family) for line in file)
        except OSError:
            continue


def _entry(line: str, family: socket.AddressFamily) -> TcpEntry:
    fields = line.split()
    address, _, port = fields[1].partition(":")
    return TcpEntry(address_of(address, family), int(port, 16), fields[3], fields[9])


def address_of(text: str, family: socket.AddressFamily) -> str:
    """The kernel's spelling (32-bit words in the machine's byte order) as people write it."""
    words = [bytes.fromhex(text[start : start + 8]) for start in range(0, len(text), 8)]
    native = b"".join(word[::-1] for word in words) if _LITTLE_ENDIAN else b"".join(words)
    return socket.inet_ntop(family, native)


_LITTLE_ENDIAN = socket.htons(1) != 1


def listening_ports() -> tuple[int, ...]:
    """Ports that somebody listens on, on whatever address, sorted."""
    return tuple(sorted({entry.port for entry in tcp_entries() if entry.state == LISTEN}))


def ephemeral_range() -> tuple[int, int]:
    """Ports that the kernel gives to outgoing connections; its default where it cannot be read."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            low, high = file.read().split()[:2]
    except (OSError, ValueError):
        return 32768, 60999
    return int(low), int(high)


def holder_of(inodes: set[str]) -> str:
    """Who has one of these sockets open: ``pid 4711 (python)``; what is known when other users' are hidden."""
    wanted = {f"socket:[{inode}]" for inode in inodes if inode != "0"}
    for pid in filter(str.isdigit, os.listdir("/proc")) if wanted else ():
        if _has_open(pid, wanted):
            return f"pid {pid} ({_command(pid)})"
    return "a process that cannot be seen from here"


def _has_open(pid: str, wanted: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{name}") in wanted for name in os.listdir(folder))
    except OSError:
        return False


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "gone"
