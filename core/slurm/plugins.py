"""Plug-ins of Slurm that bring options of their own, told by ``srun --help``."""

import re

_PYXIS = re.compile(r"^\s*--container-image\b", re.MULTILINE)


def offers_pyxis(srun_help: str) -> bool:
    """Whether ``srun`` can start steps in containers of Pyxis. Slurm's own ``--container`` is for another runtime."""
    return _PYXIS.search(srun_help) is not None
