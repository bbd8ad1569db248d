"""States of jobs in Slurm's words, of ``squeue`` and ``sacct``, 20.11 to 26.05, and which of them are the end.

Only a word that is known to be an end is one: what a later release may call a job is unknown, never over.
"""

import re
from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["alive", "ended", "unknown"]

ENDED = frozenset("BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY TIMEOUT".split())
ENDED_WHEN_GONE = frozenset({"PREEMPTED", "REVOKED"})
"""While the job is in the queue it is being ended, or starts again; only without it there is this the end."""
ALIVE = frozenset(
    "COMPLETING CONFIGURING EXPEDITING LAUNCH_FAILED PENDING POWER_UP_NODE RECONFIG_FAIL REQUEUED REQUEUE_FED "
    "REQUEUE_HOLD RESIZING RESV_DEL_HOLD RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED UPDATE_DB".split()
)
_KNOWN = ENDED | ENDED_WHEN_GONE | ALIVE


def state_word(text: str) -> str:
    """The bare word: of ``CANCELLED by 2001``, of ``CANCELLED+``, and of a narrow column (``OUT_OF_ME+``)."""
    found = re.match(r"\s*([A-Z_]+)(\+?)", text)
    if found is None:
        return text.strip()
    word, cut = found.groups()
    whole = [known for known in _KNOWN if known.startswith(word)] if cut and word not in _KNOWN else []
    return whole[0] if len(whole) == 1 else word


def phase(state: str, in_queue: bool) -> Phase:
    """Whether a job in this state may still run, or run again."""
    if state in ENDED or (state in ENDED_WHEN_GONE and not in_queue):
        return "ended"
    return "alive" if state in ALIVE or state in ENDED_WHEN_GONE else "unknown"


def cancelled_by(text: str) -> str | None:
    """The user id in ``CANCELLED by 2001``."""
    found = re.match(r"CANCELLED\+? by ([0-9]+)", text.strip())
    return found[1] if found else None
