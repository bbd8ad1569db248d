"""The word to begin."""

import os


def wait_for_go() -> bool:
    """True at the line ``go`` on standard input, False at its end. Reads no byte beyond the line."""
    line = b""
    while byte := os.read(0, 1):
        if byte != b"\n":
            line += byte
        elif line.strip() == b"go":
            return True
        else:
            line = b""
    return False
