"""Rates in the spelling of profiles."""

_BYTES = {"M": 10**6, "G": 10**9, "T": 10**12}


def bytes_per_second(text: str) -> int:
    """What ``500M``, ``2G`` or ``1T`` mean: powers of ten, as makers of storage count; the form has been checked."""
    return int(text[:-1]) * _BYTES[text[-1]]
