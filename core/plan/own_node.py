"""Which node of a plan a node worker stands on. Slurm's spelling decides; DNS spelling helps where it is unambiguous.

Runs inside the serving container: standard library and msgspec only.
"""

from collections.abc import Callable, Sequence

from core.units import NodeName


def matching_nodes(names: Sequence[NodeName], own: str) -> tuple[NodeName, ...]:
    """The nodes that `own` can mean: exactly one when it is clear.

    Slurm's names are case-sensitive, so an exact match wins. Host names are not: then the whole name is compared
    without case, then the part before the first dot.
    """
    spellings: tuple[Callable[[str], str], ...] = (str, str.casefold, _short)
    for spelling in spellings:
        found = tuple(name for name in names if spelling(name) == spelling(own))
        if found:
            return found
    return ()


def _short(name: str) -> str:
    return name.partition(".")[0].casefold()
