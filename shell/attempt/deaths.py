"""The deaths of one attempt's servers, as far as they are explained (`shell.attempt.last_words`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from core.layout import AttemptPaths
from core.supervise.effects import Explain
from core.supervise.verdict import ServersFailed, Verdict
from core.units import NodeName
from shell.launch.step_ends import read_ends

if TYPE_CHECKING:
    from shell.attempt.last_words import Death


class Deaths:
    """The deaths of one attempt, as far as they are explained."""

    def __init__(self, paths: AttemptPaths) -> None:
        self._paths = paths
        self._found: list[Death] = []

    def explain(self, asked: Explain, nodes: Sequence[NodeName], vllm: str | None) -> tuple[str, ...]:
        """Look into what a launch left behind; the words for people, none when nothing is known."""
        from shell.attempt.last_words import death_of, death_words  # milliseconds that no launch should wait for

        ends = list(read_ends(self._paths.tasks, asked.step, asked.launch, nodes))
        death = death_of(self._paths.logs, asked.step, asked.launch, ends, asked.lane, vllm)
        if death is None:
            return ()
        self._found.append(death)
        return death_words(death)

    def cause_json(self, verdict: Verdict) -> bytes:
        """The verdict for `attempt.json`, with the diagnosis of the server that was lost last."""
        fields = msgspec.to_builtins(verdict)
        if isinstance(verdict, ServersFailed):
            for death in self._found:
                if (death.step, death.launch) == (verdict.step, verdict.launch):
                    fields["diagnosis"] = msgspec.to_builtins(death.diagnosis)
        return msgspec.json.encode(fields)
