"""How the client answers: whole files, in the order prepared, progress, then a claim or an error."""

import time

from core.client_spec import ClientError, ClientSpec, Prepared, Progress, Refused
from core.codec import canonical_json
from core.problem import Problems
from core.report import as_text, report
from core.result import Claim
from shell.store import make_folder, write_atomic


class Answers:
    """The files of one client."""

    def __init__(self, spec: ClientSpec) -> None:
        self.files = spec.files
        self.wanted = spec.shard.records
        make_folder(spec.files.output)

    def prepared(self) -> None:
        """The work fits; waiting for ``go``."""
        write_atomic(self.files.prepared, canonical_json(Prepared()))

    def refused(self, problems: Problems) -> None:
        """The work cannot be done as written."""
        for problem in problems:
            print(as_text(problem), flush=True)
        refused = Refused(problems=tuple(report(problem) for problem in problems))
        write_atomic(self.files.prepared, canonical_json(refused))

    def progress(self, done: int) -> None:
        """Records that are safe on disk."""
        now = Progress(records_done=done, records_wanted=self.wanted, at_unix_ms=time.time_ns() // 1_000_000)
        write_atomic(self.files.progress, canonical_json(now))

    def claim(self, claim: Claim) -> None:
        """What has been made."""
        write_atomic(self.files.claim, canonical_json(claim))

    def failed(self, error: ClientError) -> None:
        """Why nothing can be claimed."""
        print(f"{error.said}\n    hint: {error.hint}", flush=True)
        write_atomic(self.files.error, canonical_json(error))
