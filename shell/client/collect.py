"""From files on disk to a claim that has been checked against the same disk."""

import os
from collections.abc import Iterable, Sequence
from typing import Literal

from core.client_spec import ClientError, ClientSpec
from core.report import report
from core.result import Claim, ClaimedFile, judge
from shell.client.answers import Answers
from shell.client.files import observe
from shell.client.tables import columns_of, rows_of


def claim_files(
    spec: ClientSpec,
    tables: Iterable[str],
    others: Iterable[str],
    *,
    resumed: Literal["never", "always", "if_possible"] | None,
    made_with: str,
) -> Claim:
    """The claim for files below the output folder. Only `tables` are counted."""
    output = spec.files.output
    claimed = set(tables)
    seen = observe(output, sorted({*claimed, *others}))
    counted = {file.path: rows_of(os.path.join(output, file.path)) for file in seen if file.path in claimed}
    return Claim(
        files=tuple(
            ClaimedFile(path=file.path, bytes=file.bytes, sha256=file.sha256, rows=counted.get(file.path))
            for file in seen
        ),
        columns=columns_of(os.path.join(output, path) for path, rows in counted.items() if rows is not None),
        records=sum(rows for rows in counted.values() if rows is not None),
        records_wanted=spec.shard.records,
        resumed=resumed,
        made_with=made_with,
    )


def hand_in(spec: ClientSpec, claim: Claim, answers: Answers) -> int:
    """Write the claim and give 0; or say what is missing and give 75, since another attempt may do better."""
    answers.progress(claim.records)
    problems = judge(claim, observe(spec.files.output, [file.path for file in claim.files]), spec.shard.records)
    answers.claim(claim)
    if not problems:
        return 0
    said: Sequence[str] = [report(problem).message for problem in problems]
    answers.failed(
        ClientError(
            error=None,
            message="; ".join(said),
            hint=report(problems[0]).hint,
            causes=(),
            exit_code=75,
        )
    )
    return 75
