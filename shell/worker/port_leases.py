"""Whether a planned port is free right now, and keeping it ours until the server has bound it.

A server binds long after its launch (vLLM loads for seconds first), so a plain bind alone would let two jobs take the
same port. A lease decides between jobs, also of several users: an abstract Unix socket whose name holds the port. It
lives in the network namespace, exactly like the port, in a container too; the kernel gives it to one process only and
frees it when that dies, so there is nothing stale to clear away. It counts for all addresses of a node, because one
server may listen on all of them; only simulated nodes, which share a machine, are kept apart. Standard library only.
"""

import errno
import socket

from shell.facts.sockets import TIME_WAIT, TcpEntry, holder_of, tcp_entries

_ANY = ("0.0.0.0", "::")


class PortInUse(Exception):
    """Somebody has the port. `holder` says who, as far as it can be seen."""

    def __init__(self, address: str, port: int, holder: str) -> None:
        super().__init__(f"port {port} on {address} is taken by {holder}")
        self.address = address
        self.port = port
        self.holder = holder


def claim(address: str, port: int) -> socket.socket:
    """The lease of a free port; keep it open as long as the port is to be ours.

    Errors: `PortInUse`; OSError when the address is not one of this node.
    """
    lease = _lease(address, port)
    try:
        _require_free(address, port)
    except BaseException:
        lease.close()
        raise
    return lease


def _lease(address: str, port: int) -> socket.socket:
    name = f"dd-slurm/{address if is_simulated(address) else 'node'}/{port}"
    lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lease.bind(f"\0{name}")
    except OSError as error:
        lease.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortInUse(address, port, f"another job: {holder_of(_lease_inodes(name))}") from None
    return lease


def is_simulated(address: str) -> bool:
    """Whether this is the address of one of several nodes that are played by one machine."""
    return address.startswith("127.") and address != "127.0.0.1"


def _lease_inodes(name: str) -> set[str]:
    try:
        with open("/proc/net/unix") as file:
            return {line.split()[6] for line in file if line.rstrip().endswith(f"@{name}")}
    except OSError:
        return set()


def _require_free(address: str, port: int) -> None:
    """A plain bind succeeds, or fails on remains only.

    A port with nothing but TIME_WAIT entries is free, although a plain bind fails there. One that is bound and not yet
    listening is taken, although the kernel does not show it. So the second attempt looks past remains, and only where
    there are some.
    """
    if _can_bind(address, port, reuse=False):
        return
    entries = [entry for entry in tcp_entries() if entry.port == port and _overlaps(entry, address)]
    only_remains = bool(entries) and all(entry.state == TIME_WAIT for entry in entries)
    if only_remains and _can_bind(address, port, reuse=True):
        return
    inodes = {entry.inode for entry in entries}
    raise PortInUse(address, port, holder_of(inodes) if inodes - {"0"} else "a process that is not listening yet")


def _can_bind(address: str, port: int, reuse: bool) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def _overlaps(entry: TcpEntry, address: str) -> bool:
    return address in _ANY or entry.address in (*_ANY, address, f"::ffff:{address}")
