"""What only TCP can say: that nothing was taken, and that an end is not a clean one.

Whether a kernel has taken anything of what was sent is the proof that a request cannot have been executed. After
a clean end of the server's side, TCP has acknowledged all that it had received by then. Nothing acknowledged means that
the server had closed before the request arrived. A reset proves nothing: what it acknowledges is not looked at.
"""

import asyncio
import os
import socket
import struct

_INFO_SIZE = 128
_BYTES_ACKED_AT = 120  # tcpi_bytes_acked of struct tcp_info, Linux 4.1
_SYN = 1  # is counted too


def took_nothing(descriptor: int, own_name: object, written_before: int) -> bool:
    """True when no byte beyond `written_before` was acknowledged; False also when that cannot be known.

    `own_name` guards against a descriptor that belongs to another connection by now.
    """
    try:
        with socket.socket(fileno=os.dup(descriptor)) as same:
            if same.getsockname() != own_name:
                return False
            info = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
    except OSError:
        return False
    if len(info) < _INFO_SIZE:
        return False
    acknowledged: int = struct.unpack_from("Q", info, _BYTES_ACKED_AT)[0]
    return acknowledged <= written_before + _SYN


def end_with_reset(transport: asyncio.Transport) -> None:
    """Close so that the other side sees an error: an ordinary close would look like a proper end."""
    try:
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass  # it is closed already
    transport.abort()
