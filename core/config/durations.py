"""Lengths of time in the spellings of run files and of Slurm."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration_ms(text: str) -> int:
    """Milliseconds of ``0``, ``60s``, ``15m``, ``1h`` or ``2d``; the form has been checked before."""
    return 0 if text == "0" else int(text[:-1]) * _SECONDS[text[-1]] * 1000


def time_limit_s(text: str) -> int:
    """Seconds of Slurm's ``[D-]HH:MM:SS``; the form has been checked before."""
    days, _, clock = text.rpartition("-")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds
