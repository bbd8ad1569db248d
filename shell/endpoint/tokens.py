"""The bearer tokens of an endpoint, read once from files that nobody else can read."""

import os
import stat

import msgspec

from core.endpoint_spec import EndpointSpec


class UnusableToken(Exception):
    """A token file that does not hold one token for its owner only. The message never holds the token."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What clients must show, and what servers are shown."""

    client: bytes | None
    server: bytes | None


def read_tokens(spec: EndpointSpec) -> Tokens:
    """Both tokens. Raises `UnusableToken` or `OSError`."""
    return Tokens(client=_read_token(spec.client_token_file), server=_read_token(spec.server_token_file))


def _read_token(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise UnusableToken(f"{path}: others can read it: its mode must be 0600")
        token = file.read(4_096).strip()
    if not token or not all(0x21 <= byte <= 0x7E for byte in token):
        raise UnusableToken(f"{path}: it does not hold one line of printable ASCII without spaces")
    return token
