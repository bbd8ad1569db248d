"""GPUs as Slurm and CUDA write them: indices and ranges, ``gpu:a100:4``, UUIDs, MIG slices, nothing."""

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
from returns.result import Success

from core.outcome import Outcome, refuse
from core.problem import At, Malformed


class NoGpus(msgspec.Struct, frozen=True, kw_only=True, tag="none", tag_field="kind"):
    """None are granted. An empty mask means this, never "all"."""


class GpuIndices(msgspec.Struct, frozen=True, kw_only=True, tag="indices", tag_field="kind"):
    """Which ones, by their number on the node: ``0-3``, ``gpu:a100:2(IDX:4,6)``."""

    indices: tuple[int, ...]


class GpuCount(msgspec.Struct, frozen=True, kw_only=True, tag="count", tag_field="kind"):
    """How many, and of which type where one is named: ``gpu:a100:4``."""

    count: int
    type: str | None


class GpuUuids(msgspec.Struct, frozen=True, kw_only=True, tag="uuids", tag_field="kind"):
    """Whole GPUs by the driver's names: ``GPU-8f1c…``."""

    uuids: tuple[str, ...]


class MigSlices(msgspec.Struct, frozen=True, kw_only=True, tag="mig", tag_field="kind"):
    """Slices of GPUs. Each counts once, and none can be part of a tensor group."""

    slices: tuple[str, ...]


Gpus: TypeAlias = NoGpus | GpuIndices | GpuCount | GpuUuids | MigSlices

_NOTHING = frozenset({"", "-1", "none", "void", "NoDevFiles", "N/A", "(null)"})
_INDEX_LIST = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*")
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{2,64}")
_MIG = re.compile(r"MIG-[A-Za-z0-9/-]{1,100}")
_GRES = re.compile(
    r"(?:gres[:/])?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<type>[A-Za-z_0-9][A-Za-z0-9_.-]*?))??"
    r"(?:[:=](?P<count>[0-9]{1,6}))?(?:\((?P<detail>[^()]*)\))?"
)
_BETWEEN_GRES = re.compile(r",(?![^(]*\))")


def parse_gpus(text: str, at: At) -> Outcome[Gpus]:
    """What a mask (``CUDA_VISIBLE_DEVICES``) or a GRES text grants.

    Errors: `Malformed`, also for an index or a UUID that stands twice.
    """
    entries = tuple(entry.strip() for entry in text.split(","))
    if entries[0] in _NOTHING and len(entries) == 1:
        return Success(NoGpus())
    if _INDEX_LIST.fullmatch(text):
        return _indices(text, at)
    if all(map(_UUID.fullmatch, entries)) and _all_differ(entries):
        return Success(GpuUuids(uuids=entries))
    if all(map(_MIG.fullmatch, entries)) and _all_differ(entries):
        return Success(MigSlices(slices=entries))
    return _parse_gres(text, at)


def parse_indices(text: str) -> tuple[int, ...] | None:
    """``0-2,5`` as numbers in order of writing; None when it is not of that form or names one twice."""
    if not _INDEX_LIST.fullmatch(text):
        return None
    indices = tuple(_numbers(text))
    return indices if _all_differ(indices) else None


def _indices(text: str, at: At) -> Outcome[Gpus]:
    indices = parse_indices(text)
    return _refuse(text, at) if indices is None else Success(GpuIndices(indices=indices))


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _parse_gres(text: str, at: At) -> Outcome[Gpus]:
    """Other resources than GPUs are passed over; several types of GPU are added up."""
    found = tuple(map(_GRES.fullmatch, _BETWEEN_GRES.split(text)))
    items = tuple(item for item in found if item is not None)
    if len(items) < len(found):
        return _refuse(text, at)
    gpus = tuple(item for item in items if item["name"] == "gpu")
    listed = tuple(item["detail"] for item in gpus if (item["detail"] or "").startswith("IDX:"))
    if listed and len(listed) == len(gpus):
        return _indices(",".join(detail.removeprefix("IDX:") for detail in listed), at)
    count = sum(int(item["count"] or 1) for item in gpus)
    types = {item["type"] for item in gpus}
    return Success(GpuCount(count=count, type=types.pop() if len(types) == 1 else None) if count else NoGpus())


def _all_differ(entries: tuple[int, ...] | tuple[str, ...]) -> bool:
    return len(set(entries)) == len(entries) > 0


def _refuse(text: str, at: At) -> Outcome[Gpus]:
    expected = "GPUs as indices (0-3), gpu:type:count, or GPU- or MIG- names, each once"
    return refuse(Malformed(at=at, found=repr(text[:200]), expected=expected))
