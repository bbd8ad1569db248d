"""Whether what a client claims to have made is really there and complete. An exit code of 0 proves nothing."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from core.problem import At, ClaimMissing, FileDiffers, NotUnique, Problem, Problems, RowsUnknown, TooFewRecords

SOURCE = "claim.json"


class ClaimedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file below the output folder. `rows` is None for files that are not part of the table."""

    path: str
    bytes: int
    sha256: str
    rows: int | None


class ClaimedColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column, with its type in the words of its file format."""

    name: str
    type: str


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says it has made. `made_with` names program and version; resume says what really happened."""

    files: tuple[ClaimedFile, ...]
    columns: tuple[ClaimedColumn, ...]
    records: int
    records_wanted: int
    resumed: Literal["never", "always", "if_possible"] | None
    made_with: str


class ObservedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A regular file that somebody else than the client found below the output folder."""

    path: str
    bytes: int
    sha256: str


def judge(claim: Claim | None, observed: Sequence[ObservedFile], records_wanted: int) -> Problems:
    """Everything that is wrong with a claim; empty when it may count as a result.

    Problems: `ClaimMissing`, `FileDiffers`, `NotUnique`, `RowsUnknown`, `TooFewRecords`. Files that are there but not
    claimed do no harm: they are remains of earlier attempts, or logs.
    """
    if claim is None:
        return (ClaimMissing(at=At(source=SOURCE)),)
    return tuple(_misfits(claim, observed, records_wanted))


def _misfits(claim: Claim, observed: Sequence[ObservedFile], records_wanted: int) -> Iterator[Problem]:
    found = {file.path: file for file in observed}
    first: dict[str, int] = {}
    for index, file in enumerate(claim.files):
        at = At(source=SOURCE, path=f"files[{index}]")
        if file.path in first:
            yield NotUnique(at=at, what="file", value=file.path, first_path=f"files[{first[file.path]}]")
        elif not is_inside(file.path):
            yield FileDiffers(at=at, file=file.path, what="place", claimed="below output", found="outside")
        else:
            yield from _difference(at, file, found.get(file.path))
        first.setdefault(file.path, index)
    yield from _wrong_count(claim, records_wanted)


def is_inside(path: str) -> bool:
    """Whether a relative path stays below its folder, by its spelling."""
    parts = path.split("/")
    return not any(part in ("", ".", "..") for part in parts) and "\x00" not in path


def _difference(at: At, claimed: ClaimedFile, found: ObservedFile | None) -> Iterator[Problem]:
    if found is None:
        yield FileDiffers(at=at, file=claimed.path, what="existence", claimed="a file", found="nothing")
    elif found.bytes != claimed.bytes:
        yield FileDiffers(
            at=at, file=claimed.path, what="size", claimed=f"{claimed.bytes} bytes", found=f"{found.bytes} bytes"
        )
    elif found.sha256 != claimed.sha256:
        yield FileDiffers(at=at, file=claimed.path, what="digest", claimed=claimed.sha256, found=found.sha256)


def _wrong_count(claim: Claim, wanted: int) -> Iterator[Problem]:
    at = At(source=SOURCE, path="records")
    counted = {file.path: file.rows for file in claim.files if file.rows is not None}
    if not counted:
        yield RowsUnknown(at=at, files=tuple(file.path for file in claim.files))
        return
    if sum(counted.values()) != claim.records:
        yield FileDiffers(
            at=at,
            file="all files",
            what="number of rows",
            claimed=str(claim.records),
            found=str(sum(counted.values())),
        )
    if min(claim.records, sum(counted.values())) < wanted:
        yield TooFewRecords(at=at, records=min(claim.records, sum(counted.values())), wanted=wanted)
