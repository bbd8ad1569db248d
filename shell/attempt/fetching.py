"""Models of the hub, fetched before servers start: one process per model and cache, all at once."""

import os
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import msgspec

from core.fetch_answer import FetchAnswer, Fetched, FetchFailed
from core.layout import AttemptPaths, fetch_answer, lane_log
from core.plan.bound import BoundPlan, Download
from core.plan.steps import download_step
from core.problem import At, HubModelMissing, Problems
from core.report import counted
from core.units import StepName
from shell.launch.launcher import Launcher
from shell.submission.runs import last_lines

LAUNCH = 1

Say = Callable[[str], None]
News = SimpleQueue[int | StepName | None]
"""Names of steps that are gone, and numbers of signals to stop. Anything else does not matter here."""


def fetch_models(bound: BoundPlan, paths: AttemptPaths, launcher: Launcher, news: News, say: Say) -> Problems | int:
    """What could not be fetched, nothing when all is there; the number of the signal when somebody asked to stop.

    Needs `bound` in its file. There is no time limit but the job's: a large model takes hours, and the tool has limits
    of its own for a network that is silent.
    """
    begun = time.monotonic()
    for download in bound.downloads:
        say(_begins(bound, download))
        launcher.serve(download_step(download), LAUNCH, bound, paths.bound(1))
    stopped = _wait(bound.downloads, launcher, news)
    if stopped is not None:
        return stopped
    answers = [(download, read_answer(paths, download)) for download in bound.downloads]
    for download, answer in answers:
        if isinstance(answer, Fetched):
            say(f"{download.model} is in {answer.path} (after {time.monotonic() - begun:.0f} s)")
    return tuple(
        HubModelMissing(
            at=At(source=f"node {bound.nodes[download.slot].name}"),
            model=download.model,
            cause=answer.cause,
            detail=answer.detail,
        )
        for download, answer in answers
        if isinstance(answer, FetchFailed)
    )


def _begins(bound: BoundPlan, download: Download) -> str:
    others = f"; {counted(download.nodes - 1, 'other node')} of the same cache wait" if download.nodes > 1 else ""
    return f"{download.model} is fetched from the hub by node {bound.nodes[download.slot].name}{others}"


def _wait(downloads: Sequence[Download], launcher: Launcher, news: News) -> int | None:
    """Until all have ended: by themselves, in order after a signal, at once after another one."""
    left, stopped = {download.step for download in downloads}, None
    while left:
        said = news.get()
        if isinstance(said, int):
            for step in left:
                launcher.signal(step, LAUNCH, "TERM" if stopped is None else "KILL")
            stopped = said if stopped is None else stopped
        elif said is not None:
            left.discard(said)
    return stopped


def read_answer(paths: AttemptPaths, download: Download) -> FetchAnswer:
    """What the process said at its end; the end of its log when it did not come to it."""
    try:
        with open(fetch_answer(paths.tasks, download.step), "rb") as file:
            answer: FetchAnswer = msgspec.json.decode(file.read(), type=FetchAnswer)
            return answer
    except (OSError, msgspec.MsgspecError):
        log = lane_log(paths.logs, download.step, LAUNCH, download.step)
        said = " / ".join(last_lines(log, 2)) or "it said nothing"
        return FetchFailed(cause="failed", detail=f"{os.path.basename(log)}: {said[:400]}")
