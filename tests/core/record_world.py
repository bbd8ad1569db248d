"""A run as seen from outside, in a few lines of text: what is in its folder, and what Slurm's commands print.

shards 6                      so many, of 10 records each, submitted as job 900 with the name dd-r-1
single                        one shard, as a job that is no array
job 901 3                     one more submission, for these shards; `unclear 3`, `refused 3` and `held 901 3`
winner 0 1                    shard, attempt
attempt 0 1 4711 RUNNING 4    shard, number, id of its job, state, records; then exit code, cause, last word
queue LINE                    of squeue, in the format that we ask for, with the name of the job left out
accounting LINE               of sacct, likewise
queue! WORDS                  squeue fails, saying this; also accounting!
absent 900_0 60               missing in the queue for so many seconds
"""

from core.record.rows import NoAccounting, Queue, read_accounting, read_queue
from core.record.sightings import Absence, AttemptSeen, ShardSeen, Sightings, SubmissionSeen, SubmissionState
from core.submit.answer import CommandAnswer, Finished
from core.submit.records import Job

NOT_ACCEPTED: dict[str, SubmissionState] = {"unclear": "unclear", "refused": "refused", "absent": "absent"}


def sightings(text: str) -> Sightings:
    """The run that the text describes."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith((" ", "#"))]
    told = [(word, rest[0] if rest else "") for word, *rest in lines]
    count = next((int(rest) for word, rest in told if word == "shards"), 1)
    submissions = tuple(_submissions(told, count))
    names = {one.job.job_id: one.job_name for one in submissions if one.job}
    winners = dict(rest.split() for word, rest in told if word == "winner")
    attempts = [_attempt(rest) for word, rest in told if word == "attempt"]
    accounting = read_accounting(_answers(told, "accounting", names), names)
    return Sightings(
        shards=tuple(
            ShardSeen(
                shard=shard,
                records_wanted=10,
                winner=int(winners[str(shard)]) if str(shard) in winners else None,
                attempts=tuple(attempt for of, attempt in attempts if of == shard),
            )
            for shard in range(count)
        ),
        submissions=submissions,
        queue=_queue(told, names),
        accounting=accounting if names else NoAccounting(reason="nothing was submitted"),
        absences=tuple(_absence(rest) for word, rest in told if word == "absent"),
    )


def _submissions(told: list[tuple[str, str]], count: int) -> list[SubmissionSeen]:
    found: list[SubmissionSeen] = []
    for word, rest in told:
        if word in ("shards", "single"):
            everything = tuple(range(count)) if word == "shards" else None
            found.append(_submission(1, "submitted", "900", everything))
        elif word in ("job", "held"):
            job, *shards = rest.split()
            found.append(_submission(len(found) + 1, "held" if word == "held" else "submitted", job, _numbers(shards)))
        elif word in NOT_ACCEPTED:
            found.append(_submission(len(found) + 1, NOT_ACCEPTED[word], None, _numbers(rest.split())))
    return found


def _numbers(words: list[str]) -> tuple[int, ...] | None:
    return tuple(map(int, words)) or None


def _submission(number: int, state: SubmissionState, job: str | None, shards: tuple[int, ...] | None) -> SubmissionSeen:
    return SubmissionSeen(
        number=number,
        state=state,
        job=Job(job_id=job) if job else None,
        job_name=f"dd-r-{number}",
        shards=shards,
        created_unix_ms=number * 1000,
    )


def _attempt(rest: str) -> tuple[int, AttemptSeen]:
    shard, number, job_id, state, records, *end = rest.split(maxsplit=7)
    return int(shard), AttemptSeen(
        number=int(number),
        job_id=job_id,
        nodes=("c1",),
        state=state,
        started_unix_ms=int(number) * 1000 + 500,
        ended_unix_ms=None if state == "RUNNING" else int(number) * 1000 + 900,
        exit_code=int(end[0]) if end else None,
        cause=end[1] if len(end) > 1 else None,
        records=int(records),
        said=(f"    7.2 s  {end[2]}",) if len(end) > 2 else (),
    )


def _absence(rest: str) -> Absence:
    task, seconds = rest.split()
    return Absence(task=task, for_ms=int(seconds) * 1000)


def _queue(told: list[tuple[str, str]], names: dict[str, str]) -> Queue:
    return read_queue(_answers(told, "queue", names), names)


def _answers(told: list[tuple[str, str]], command: str, names: dict[str, str]) -> list[CommandAnswer]:
    errors = [rest for word, rest in told if word == f"{command}!"]
    if errors:
        return [Finished(code=1, stdout="", stderr=errors[0])]
    lines = [rest for word, rest in told if word == command]
    return [Finished(code=0, stdout="".join(f"{line}|{_name(line, names)}\n" for line in lines), stderr="")]


def _name(line: str, names: dict[str, str]) -> str:
    """That of the job, unless the line says ``other``: then it is another one with a recycled id."""
    fields = line.split("|")
    return "other" if fields[-1] == "other" else names.get(fields[1].partition("_")[0], "?")
