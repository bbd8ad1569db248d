"""The facts of all nodes, asked before servers are planned."""

import os
import time
from collections.abc import Callable, Sequence
from queue import Empty
from typing import NamedTuple

from core.codec import canonical_json
from core.layout import AttemptPaths, facts_step_log
from core.plan.facts import NodeFacts
from core.plan.rounds import FactsRound, merge_facts, unanswered
from core.plan.silence import why_silent
from core.problem import FactsMissing
from core.report import counted
from core.units import NodeName
from shell.attempt.fetching import News
from shell.attempt.world import read_facts
from shell.launch.launcher import Launcher
from shell.store import make_folder, write_atomic
from shell.submission.runs import last_lines

NATIVELY_WITHIN_S = ENDED_WITHIN_S = 120.0
IN_AN_IMAGE_WITHIN_S = 1_800.0
"""The first step that enters an image on a node unpacks it there, and may have to fetch it from a registry."""
_TAIL_LINES = 200


class Gathered(NamedTuple):
    """What came; `silent` says why something did not."""

    facts: tuple[NodeFacts, ...]
    silent: tuple[FactsMissing, ...]


def gather_facts(
    rounds: Sequence[FactsRound],
    hosts: Sequence[NodeName],
    paths: AttemptPaths,
    launcher: Launcher,
    news: News,
    say: Callable[[str], None],
) -> Gathered | int:
    """Ask all nodes in all rounds at once; the number of the signal when somebody asked to stop."""
    for asked in rounds:
        folder = asked.request.output_dir
        path = paths.facts_request if asked.number == 1 else f"{folder}.request.json"
        make_folder(os.path.dirname(path))
        write_atomic(path, canonical_json(asked.request))
        if asked.image is not None:
            say(f"{counted(len(asked.slots), 'node')} asked for facts in the container of {asked.image}")
        launcher.facts(path, asked.nodes(hosts), asked.image)
    within_s = IN_AN_IMAGE_WITHIN_S if any(asked.image for asked in rounds) else NATIVELY_WITHIN_S
    stopped, left = _wait(news, len(rounds), time.monotonic() + within_s)
    if left:
        launcher.stop_facts()
    until = time.monotonic() + ENDED_WITHIN_S
    while left and time.monotonic() < until:
        _, left = _wait(news, left, until)
    if stopped is not None:
        return stopped
    answers = [read_facts(asked.request.output_dir, asked.nodes(hosts)) for asked in rounds]
    silent = tuple(_why(paths, asked, node) for asked, node in unanswered(rounds, answers, hosts))
    return Gathered(merge_facts(rounds, answers, hosts), silent)


def _wait(news: News, count: int, until: float) -> tuple[int | None, int]:
    """For so many rounds to end, a signal to stop, or the end of the time; how many are left."""
    while count:
        try:
            said = news.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        if isinstance(said, int):
            return said, count
        count -= said is None
    return None, count


def _why(paths: AttemptPaths, asked: FactsRound, node: NodeName) -> FactsMissing:
    log = facts_step_log(paths.logs, asked.number)
    return why_silent(node, asked, f"logs/{os.path.basename(log)}", last_lines(log, _TAIL_LINES))
