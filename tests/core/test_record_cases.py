"""Rows of squeue and sacct that misled others, one by one: what we make of them for a shard."""

import pytest

from core.record.reconcile import missing_tasks, reconcile
from core.record.rows import (
    Accounted,
    InQueue,
    NoAccounting,
    QueueUnread,
    chunks,
    newest,
    read_accounting,
    read_queue,
)
from core.record.words import caveats, say
from core.slurm.job_state import ALIVE, ENDED, ENDED_WHEN_GONE, phase, state_word
from core.submit.answer import CutShort, Finished, NotStarted
from tests.core.record_world import sightings

DAY = "2026-01-01T00"


def states(text: str) -> list[str]:
    return [say(status, "/runs/r").state for status in reconcile(sightings(text))]


def row(task: str, state: str, code: str = "0:0", derived: str = "0:0", nodes: str = "n7", raw: str = "901") -> str:
    return f"accounting {raw}|{task}|{state}|{code}|{derived}|{DAY}:00:00|{DAY}:00:01|{DAY}:01:00|{nodes}"


ONE = "shards 1\n"
CASES = [
    # --- the queue
    ("6.2 an array with one task left", "shards 2\n" + row("900_0", "COMPLETED") + "\nwinner 0 1\n"
     "queue 900|900|1%1|PENDING|JobArrayTaskLimit|", ["completed", "pending"]),
    ("a range with a limit", "shards 6\nqueue 900|900|3-5%2|PENDING|Resources|\nqueue 902|900|2|RUNNING|None|n04\n"
     "absent 900_0 400\n" + row("900_0", "FAILED", "1:0") + "\n" + row("900_1", "RUNNING"),
     ["failed", "settling", "running", "pending", "pending", "pending"]),
    ("a list that was cut", "shards 5\nqueue 900|900|3-...|PENDING|Resources|", ["unknown"] * 5),
    ("completing", "shards 2\nqueue 902|900|1|COMPLETING|None|n02", ["settling", "ending"]),
    ("6.8 completing is not completed", ONE + "queue 902|900|0|COMPLETING|None|n02", ["ending"]),
    ("6.7 preempted and in the queue", ONE + "queue 902|900|0|PREEMPTED|None|n02\n" + row("900_0", "PREEMPTED"),
     ["ending"]),
    ("6.7 preempted and gone", ONE + row("900_0", "PREEMPTED"), ["preempted"]),
    ("nothing queued", ONE + row("900_0", "COMPLETED") + "\nwinner 0 1", ["completed"]),
    ("an id that has aged out", ONE + "queue! slurm_load_jobs error: Invalid job id specified\n"
     + row("900_0", "TIMEOUT"), ["timeout"]),
    ("an error is not an empty queue", ONE + "queue! slurm_load_jobs error: Unable to contact slurm controller\n"
     + row("900_0", "FAILED", "1:0"), ["unknown"]),
    ("held after a failed launch", ONE + "queue 902|900|0|PENDING|launch failed requeued held|", ["stuck"]),
    ("held by a user", ONE + "queue 902|900|0|PENDING|JobHeldUser|", ["stuck"]),
    ("a dependency that will never be met", ONE + "queue 902|900|0|PENDING|DependencyNeverSatisfied|", ["stuck"]),
    ("22.05 cancelled while it waited: gone at once", "shards 2\nabsent 900_1 60\n"
     "accounting 900|900_[1%1]|PENDING|0:0|0:0|2026-01-01T00:00:00|Unknown|Unknown|None assigned\n"
     "queue 901|900|0|RUNNING|None|n1", ["running", "cancelled"]),
    ("22.05 or only just started", "shards 2\nabsent 900_1 59\n"
     "accounting 900|900_[1%1]|PENDING|0:0|0:0|2026-01-01T00:00:00|Unknown|Unknown|None assigned\n"
     "queue 901|900|0|RUNNING|None|n1", ["running", "settling"]),
    ("22.05 submitted held, cancelled while it waited", "shards 2\nabsent 900_1 60\n"
     "queue 901|900|0|RUNNING|None|n1", ["running", "cancelled"]),
    ("22.05 submitted held, but it had begun", "shards 2\nabsent 900_1 60\nattempt 1 1 902 RUNNING 0\n"
     "queue 901|900|0|RUNNING|None|n1", ["running", "settling"]),
    ("cancelled a moment ago", "shards 2\nqueue 900|900|1|CANCELLED|JobArrayTaskLimit|\n"
     "queue 901|900|0|RUNNING|None|n1", ["running", "cancelled"]),
    ("failed a moment ago, accounting lags", ONE + "queue 901|900|0|FAILED|NonZeroExitCode|n1\n"
     + row("900_0", "RUNNING"), ["failed"]),
    ("failed a moment ago, no accounting", ONE + "queue 901|900|0|TIMEOUT|TimeLimit|n1\naccounting! disabled",
     ["timeout"]),
    ("ended well a moment ago", ONE + "queue 901|900|0|COMPLETED|None|n1\nabsent 900_0 5", ["settling"]),
    ("a new state", ONE + "queue 902|900|0|FROBNICATED|None|n1", ["unknown"]),
    ("an id of another job now", ONE + "queue 902|900|0|RUNNING|None|n1|other\n" + row("900_0", "TIMEOUT"),
     ["timeout"]),
    # --- accounting
    ("6.6 cancelled by a user", ONE + row("900_0", "CANCELLED by 2001", "0:15"), ["cancelled"]),
    ("6.6 cancelled with a plus", ONE + row("900_0", "CANCELLED+"), ["cancelled"]),
    ("6.3 the queue is empty, accounting lags", ONE + row("900_0", "RUNNING") + "\nabsent 900_0 299", ["settling"]),
    ("6.4 for too long", ONE + row("900_0", "RUNNING") + "\nabsent 900_0 300", ["lost"]),
    ("6.4 nothing at all", ONE + "absent 900_0 10", ["settling"]),
    ("6.4 nothing for five minutes", ONE + "absent 900_0 300", ["lost"]),
    ("6.13 completed, a step failed, no result", ONE + row("900_0", "COMPLETED", "0:0", "1:0") + "\nabsent 900_0 120",
     ["no-result"]),
    ("completed, and the result not visible yet", ONE + row("900_0", "COMPLETED") + "\nabsent 900_0 119",
     ["settling"]),
    ("6.16 a node failed", ONE + row("900_0", "NODE_FAIL"), ["node-fail"]),
    ("6.15 the time limit", ONE + row("900_0", "TIMEOUT"), ["timeout"]),
    ("out of memory", ONE + row("900_0", "OUT_OF_MEMORY", "0:125"), ["out-of-memory"]),
    ("out of memory in a narrow column", ONE + row("900_0", "OUT_OF_ME+", "0:125"), ["out-of-memory"]),
    ("requeued", ONE + row("900_0", "REQUEUED"), ["settling"]),
    ("expediting", ONE + row("900_0", "EXPEDITING"), ["settling"]),
    ("a new state, gone", ONE + row("900_0", "FROBNICATED") + "\nabsent 900_0 9999", ["unknown"]),
    ("requeued, and newest last", ONE + row("900_0", "NODE_FAIL") + "\n"
     + row("900_0", "FAILED", "1:0").replace(f"{DAY}:00:00", f"{DAY}:02:00"), ["failed"]),
    ("requeued, and newest first", ONE + row("900_0", "FAILED", "1:0").replace(f"{DAY}:00:00", f"{DAY}:02:00") + "\n"
     + row("900_0", "NODE_FAIL"), ["failed"]),
    ("an id that was used before", ONE + row("900_0", "COMPLETED") + "|other\n" + row("900_0", "TIMEOUT"),
     ["timeout"]),
    ("6.11 no accounting, the attempt says it", ONE + "accounting! Slurm accounting storage is disabled\n"
     "attempt 0 1 901 FAILED 4 65 client-failed FAILED: the client failed", ["failed"]),
    ("6.11 no accounting, killed", ONE + "accounting! Slurm accounting storage is disabled\n"
     "attempt 0 1 901 RUNNING 4\nabsent 900_0 300", ["lost"]),
    ("6.11 no accounting, and gone a moment ago", ONE + "accounting! Slurm accounting storage is disabled\n"
     "attempt 0 1 901 RUNNING 4\nabsent 900_0 3", ["settling"]),
    # --- files and both
    ("killed with kill -9", ONE + "attempt 0 1 901 RUNNING 4\n" + row("900_0", "FAILED", "0:9"), ["failed"]),
    ("its time was over", ONE + "attempt 0 1 901 INTERRUPTED 4 75 out-of-time\n" + row("900_0", "FAILED", "75:0"),
     ["out-of-time"]),
    ("it has written its end, accounting lags", ONE + "attempt 0 1 901 FAILED 0 78 client-refused\n"
     + row("900_0", "RUNNING"), ["failed"]),
    ("an earlier start had failed, then a node", ONE + "attempt 0 1 901 INTERRUPTED 3 143 stopped\n"
     "attempt 0 2 901 RUNNING 3\n" + row("900_0", "NODE_FAIL"), ["node-fail"]),
    ("requeued and waiting", ONE + "attempt 0 1 901 RUNNING 3\nqueue 901|900|0|PENDING|BeginTime|\n"
     + row("900_0", "REQUEUED"), ["pending"]),
    ("won, though it is still there", ONE + "winner 0 1\nqueue 901|900|0|RUNNING|None|n1", ["completed"]),
    ("no submission", "refused 0", ["not-submitted"]),
    ("a submission that is not settled", "shards 1\n" + row("900_0", "FAILED", "1:0") + "\nunclear 0", ["unclear"]),
    ("a follow-up waits", "shards 2\njob 903 1\n" + row("900_1", "FAILED", "75:0") + "\nwinner 0 1\n"
     "queue 903|903|1|PENDING|Dependency|", ["completed", "pending"]),
    ("a job that is no array", "single\nqueue 900|900|N/A|RUNNING|None|n1", ["running"]),
    ("a job that is no array, ended", "single\n" + row("900", "TIMEOUT", raw="900"), ["timeout"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_case(name: str, text: str, wanted: list[str]) -> None:
    assert states(text) == wanted


def why(text: str) -> str:
    (status,) = reconcile(sightings(text))
    said = say(status, "/runs/r")
    return f"{said.why} -> {said.next}"


WORDS = [
    (row("900_0", "CANCELLED by 2001"), "cancelled by user 2001 -> dd-slurm retry /runs/r"),
    (row("900_0", "NODE_FAIL"), "a node failed (n7) -> dd-slurm retry /runs/r    # avoids the node"),
    (
        row("900_0", "TIMEOUT"),
        "the time limit ended it -> dd-slurm retry /runs/r --resume if_possible    # or a longer --time-limit",
    ),
    (
        row("900_0", "OUT_OF_MEMORY"),
        "it used more memory than it was given -> a retry alone ends alike: give more memory (mem_per_gpu, client.cpus)"
        " in a new run",
    ),
    (
        row("900_0", "COMPLETED", derived="1:0") + "\nabsent 900_0 500",
        "the job ended well but there is no result; a step of it ended with 1 -> mend what it says, then "
        "dd-slurm retry /runs/r",
    ),
    (
        row("900_0", "FAILED", "0:9") + "\nattempt 0 1 901 RUNNING 4",
        "the job ended with signal 9, and its controller did not say why -> mend what it says, then "
        "dd-slurm retry /runs/r",
    ),
    (
        row("900_0", "FAILED", "65:0") + "\nattempt 0 1 901 FAILED 4 65 client-failed FAILED: it is broken",
        "FAILED: it is broken -> mend what it says, then dd-slurm retry /runs/r",
    ),
    (
        "queue 901|900|0|PENDING|launch failed requeued held|",
        "PENDING launch failed requeued held -> its launch failed and Slurm holds it: look at the nodes, then "
        "scontrol release 900_0",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), WORDS)
def test_words(text: str, wanted: str) -> None:
    assert why(ONE + text) == wanted


def test_no_accounting_and_no_queue_are_said() -> None:
    seen = sightings("shards 1\nqueue! down\naccounting! Slurm accounting storage is disabled\nheld 904 0\nunclear 0")
    assert caveats(seen) == (
        "the queue cannot be read, so what runs is not known: down",
        "no accounting (Slurm accounting storage is disabled): the ends of jobs are taken from the run folder alone",
        "submission 2 is held until it is taken up with dd-slurm submit",
        "submission 3 is not settled: dd-slurm submit settles it",
    )
    assert caveats(sightings("shards 1")) == ()


def test_5_5_many_ids_are_asked_in_several_calls_and_joined() -> None:
    ids = [str(number) for number in range(1, 5001)]
    asked = chunks([*ids, *ids])
    assert [one for chunk in asked for one in chunk] == ids
    assert max(map(len, asked)) == 200
    names = dict.fromkeys(ids, "dd")
    answers = [Finished(code=0, stdout=f"{chunk[0]}|{chunk[0]}|N/A|RUNNING|None|n1|dd\n", stderr="") for chunk in asked]
    queue = read_queue(answers, names)
    assert isinstance(queue, InQueue)
    assert len(queue.rows) == 25
    assert isinstance(read_queue([*answers, CutShort(after_s=60, stderr="")], names), QueueUnread)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Finished(code=1, stdout="", stderr="squeue: error: Socket timed out\n"), "Socket timed out"),
        (Finished(code=1, stdout="", stderr=""), "squeue ended with 1"),
        (CutShort(after_s=60, stderr=""), "squeue gave no answer within 60 s"),
        (NotStarted(reason="no such file"), "squeue cannot be started: no such file"),
    ],
)  # fmt: skip
def test_why_the_queue_cannot_be_read(answer: Finished | CutShort | NotStarted, reason: str) -> None:
    assert read_queue([answer], {}) == QueueUnread(reason=reason)


def test_accounting_that_is_disabled_or_away() -> None:
    disabled = Finished(code=1, stdout="", stderr="Slurm accounting storage is disabled\n")
    assert read_accounting([disabled], {}) == NoAccounting(reason="Slurm accounting storage is disabled")
    assert read_accounting([NotStarted(reason="gone")], {}) == NoAccounting(reason="sacct cannot be started: gone")


def test_rows_of_a_real_array() -> None:
    """As 22.05 printed it: a task requeued, one cancelled, two running, two waiting."""
    text = """4|1_0|REQUEUED|0:0|0:0|2026-11-30T08:44:08|2026-11-30T08:44:08|2026-11-30T08:44:12|c1|dd|x
5|1_1|CANCELLED by 0|0:0|0:0|2026-11-30T08:44:08|2026-11-30T08:44:08|2026-11-30T08:44:12|c1|dd|x
8|1_2|RUNNING|0:0|0:0|2026-11-30T08:44:08|2026-11-30T08:44:12|Unknown|c1|dd|x
1|1_[4-5%2]|PENDING|0:0|0:0|2026-11-30T08:44:08|Unknown|Unknown|None assigned|dd|x
4|1_0|PENDING|0:0|0:0|2026-11-30T08:44:12|Unknown|Unknown|None assigned|dd|x
"""
    read = read_accounting([Finished(code=0, stdout=text, stderr="")], {"1": "dd|x"})
    assert isinstance(read, Accounted)
    assert [(one.index, one.state, one.nodes) for one in read.rows] == [
        (0, "REQUEUED", "c1"), (1, "CANCELLED", "c1"), (2, "RUNNING", "c1"), (4, "PENDING", ""), (5, "PENDING", ""),
        (0, "PENDING", ""),
    ]  # fmt: skip
    last = newest([one for one in read.rows if one.index == 0])
    assert last is not None
    assert last.state == "PENDING"
    assert newest(()) is None


def test_what_is_missing_in_the_queue() -> None:
    text = "shards 4\nwinner 0 1\nqueue 902|900|1|RUNNING|None|n1"
    assert missing_tasks(sightings(text)) == ("900_2", "900_3")
    assert missing_tasks(sightings("shards 4\nqueue! down")) == ()
    assert missing_tasks(sightings("shards 2\njob 903 1")) == ("900_0", "903_1")


def test_every_state_has_one_phase() -> None:
    assert not ENDED & ALIVE
    assert not ENDED_WHEN_GONE & (ENDED | ALIVE)
    assert {phase(state, in_queue=True) for state in ALIVE | ENDED_WHEN_GONE} == {"alive"}
    assert {phase(state, in_queue=False) for state in ENDED | ENDED_WHEN_GONE} == {"ended"}
    assert phase("", in_queue=False) == phase("NEW", in_queue=True) == "unknown"
    assert [state_word(text) for text in ("COMPLETED", "C+", "NODE_FAIL ", "", "new")] == [
        "COMPLETED", "C", "NODE_FAIL", "", "new",
    ]  # fmt: skip
