"""Our own packages as one file, for nodes and images that do not have them.

A search path that began with the folder where we are installed would put that folder's other packages in front of
vLLM's own. A zip holds ours only, is read with one open per process, and cannot change under a running job. It carries
the byte code of the Python that made it; other versions of Python read the sources.
"""

import hashlib
import importlib.util
import io
import os
import zipfile
from collections.abc import Iterator

from shell.store import write_atomic

PACKAGES = ("core", "shell")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = 0b01
"""PEP 552: byte code that is not compared with its source."""


def write_bundle(folder: str) -> str:
    """Make ``bundle-<digest>.zip`` in the folder, the same bytes for the same sources; its path."""
    content = bundle_bytes(_sources())
    path = f"{folder}/bundle-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    write_atomic(path, content)
    return path


def bundle_bytes(files: Iterator[tuple[str, bytes]]) -> bytes:
    """The zip of these files; a module's byte code beside it, where zip imports look for it first."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
            if name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), _byte_code(name, content))
    return made.getvalue()


def _byte_code(name: str, source: bytes) -> bytes:
    import marshal

    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    return (
        importlib.util.MAGIC_NUMBER
        + _UNCHECKED.to_bytes(4, "little")
        + importlib.util.source_hash(source)
        + marshal.dumps(code)
    )


def _sources() -> Iterator[tuple[str, bytes]]:
    """Every file of our packages but byte code, in order."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for package in PACKAGES:
        for folder, folders, names in os.walk(f"{root}/{package}"):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                if not name.endswith((".pyc", ".pyo")):
                    path = f"{folder}/{name}"
                    with open(path, "rb") as file:
                        yield os.path.relpath(path, root), file.read()
