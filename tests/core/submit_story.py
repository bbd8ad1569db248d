"""Stories of submissions as text: an event per line, and below it what was done and what it led to."""

from collections.abc import Iterator

from core.codec import compact_json
from core.submit import state as s
from core.submit.answer import Answer, Unclear
from core.submit.records import Absent, Intent, Job, NotAccepted, Receipt, Refused, Submitted
from core.submit.sight import Blind, Row, Seen, Sight
from core.submit.step import begin, step
from core.submit.words import progress, tell
from core.units import MonotonicMs


def plan_for(tasks: int, patience: s.Patience | None = None) -> s.SubmitPlan:
    """A submission of so many tasks."""
    intent = Intent(
        run_id="reviews",
        number=1,
        job_name="data-designer-reviews-1",
        user_id=1000,
        host="login",
        indices=tuple(range(tasks)) if tasks > 1 else None,
        plan_sha256="0",
        script_sha256="0",
        created_unix_ms=0,
    )
    return s.SubmitPlan(intent=intent, patience=patience or s.Patience())


def retell(text: str) -> str:
    """The story with everything below its events worked out anew."""
    lines = [line for line in text.splitlines() if line and not line.startswith("    ")]
    heads = [line for line in lines if line.startswith(("#", "tasks "))]
    plan = plan_for(next((int(line.split()[1]) for line in heads if line.startswith("tasks ")), 1))
    told = [*heads, ""]
    state: s.State | None = None
    for line in lines[len(heads) :]:
        moment, word, *words = line.split()
        at = MonotonicMs(int(moment.removesuffix("ms")))
        if state is None:
            assert word == "begin", line
            before, (state, effects) = None, begin(_start(words), at)
        else:
            before, (state, effects) = state, step(plan, state, _event(at, state, word, words))
        told += [line, *(f"    {line}" for line in _below(before, state, effects))]
    return "\n".join(told) + "\n"


def _below(before: s.State | None, state: s.State, effects: tuple[s.Effect, ...]) -> Iterator[str]:
    yield from (_said(effect) for effect in effects)
    if before != state and (line := progress(state)):
        yield f"| {line}"
    yield f"= {_said(state)}"
    if isinstance(state, s.Ended):
        told = tell(state.end, "/runs/r1", "/runs/r1/submissions/1/logs")
        yield f"| {told.message}"
        yield from (f"|   {line}" for line in told.next_steps)
        yield f"exit {told.exit_code}"


def _said(value: s.State | s.Effect) -> str:
    return compact_json(value).decode().replace('"', "").replace(",cluster:null", "")


def _start(words: list[str]) -> s.Start:
    match words:
        case ["fresh"]:
            return s.Fresh()
        case ["left-unclear"]:
            return s.LeftUnclear()
        case ["settled", *rest]:
            return s.Settled(receipt=_receipt(rest), released=rest[-1] == "released")
        case _:
            raise AssertionError(words)


def _event(at: MonotonicMs, state: s.State, word: str, words: list[str]) -> s.Event:
    match word:
        case "answered":
            return s.Answered(at=at, answer=_answer(words))
        case "looked":
            return s.Looked(at=at, sight=_sight(words))
        case "stands":
            own = state.own if isinstance(state, s.Recording) and words == ["own"] else None
            return s.Stands(at=at, receipt=own or _receipt(words))
        case "released":
            return s.Released(at=at, reason=" ".join(words) or None)
        case "cancelled":
            return s.Cancelled(at=at, reason=" ".join(words) or None)
        case "timer":
            return s.TimerFired(at=at)
        case _:
            raise AssertionError(word)


def _answer(words: list[str]) -> Answer:
    if words[0] == "unclear":
        return Unclear(reason=" ".join(words[1:]))
    receipt = _receipt(words)
    assert not isinstance(receipt, Absent), "sbatch does not say so"
    return receipt


def _receipt(words: list[str]) -> Receipt:
    match words:
        case ["submitted", job, *_]:
            return Submitted(job=Job(job_id=job), how="answered")
        case ["refused", *rest]:
            return Refused(reason=" ".join(rest))
        case ["unreachable", *rest]:
            return NotAccepted(reason=" ".join(rest), cause="unreachable")
        case ["busy", *rest]:
            return NotAccepted(reason=" ".join(rest), cause="busy")
        case ["absent", *rest]:
            return Absent(reason=" ".join(rest))
        case _:
            raise AssertionError(words)


def _sight(words: list[str]) -> Sight:
    """``blind WORDS``, ``nothing``, or tasks such as ``7``, ``7_0`` and ``7_0:CANCELLED``."""
    if words[0] == "blind":
        return Blind(reason=" ".join(words[1:]))
    return Seen(rows=tuple(_row(word) for word in words if word != "nothing"))


def _row(word: str) -> Row:
    task, _, state = word.partition(":")
    job, _, index = task.partition("_")
    return Row(job=Job(job_id=job), index=int(index) if index else None, state=state or "PENDING")
