"""Answers of sbatch, of releases and cancellations: every kind of answer that a submission can meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.submit.answer import (
    CommandAnswer,
    CutShort,
    Finished,
    NotStarted,
    Unclear,
    doubt,
    read_sbatch_answer,
    said,
    why_not,
)
from core.submit.records import Job, NotAccepted, Refused, Submitted

FAILED = "sbatch: error: Batch job submission failed: "
ACCEPTED = [
    ("4711\n", Job(job_id="4711")),
    ("67;slurmlab\n", Job(job_id="67", cluster="slurmlab")),
    ("4711", Job(job_id="4711")),
    ("  4711  \r\n", Job(job_id="4711")),
    ("Welcome to the cluster!\nBalance: 1200 hours\n4711\n", Job(job_id="4711")),
    ("sbatch wrapper 2.1\nSubmitted batch job 4711\n", Job(job_id="4711")),
    ("Submitted batch job 4711 on cluster tiger\n", Job(job_id="4711", cluster="tiger")),
    ("4711\nSubmitted batch job 4711\n", Job(job_id="4711")),
    ("4294967295\n", Job(job_id="4294967295")),
]
NO_ID = [
    "",
    "\n",
    "done\n",
    "0\n",
    "-1\n",
    "12 13\n",
    "1200\n4711\n",
    "4711;\n",
    "4711_3\n",
    "99999999999\n",
    "4711;a;b\n",
]
REFUSED = [
    "sbatch: error: invalid partition specified: nope\n" + FAILED + "Invalid partition name specified",
    FAILED + "No partition specified or system default partition",
    FAILED + "Invalid account or account/partition combination specified",
    FAILED + "Invalid qos specification",
    FAILED + "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
    FAILED + "Requested time limit is invalid (missing or exceeds some limit)",
    FAILED + "Requested node configuration is not available",
    FAILED + "Node count specification invalid",
    FAILED + "Invalid generic resource (gres) specification",
    FAILED + "Invalid job array specification",
    FAILED + "Memory required by task is not available",
    FAILED + "Access/permission denied",
    FAILED + "User's group not permitted to use this partition",
    FAILED + "Requested nodes not in this partition",
    FAILED + "More processors requested than permitted",
    FAILED + "Job dependency problem",
    FAILED + "Requested operation is presently disabled",
    FAILED + "Invalid feature specification",
    FAILED + "Pathname of a file, directory or other parameter too long",
    "sbatch: error: lua: no project was named\n" + FAILED + "Unspecified error",
    FAILED + "Incompatible versions of client and server code",
    "sbatch: error: slurm_open_msg_conn: Connection refused\n" + FAILED + "Invalid qos specification",
    "sbatch: error: Invalid --time specification",
    "sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information",
    "sbatch: error: Unable to open file /nonexist",
    "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n"
    "sbatch: error: instead of expected UNIX line breaks (\\n).",
]
UNREACHABLE = [
    FAILED + "Unable to contact slurm controller (connect failure)",
    'sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such file or directory\n'
    "sbatch: error: slurm_send_node_msg: auth_g_create: REQUEST_SUBMIT_BATCH_JOB has authentication error\n"
    + FAILED
    + "Protocol authentication error",
    "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\nsbatch: error: fetch_config: DNS SRV "
    "lookup failed\nsbatch: fatal: Could not establish a configuration source",
    "/usr/local/bin/sbatch: line 3: /opt/slurm/bin/sbatch: command not found",
    FAILED + "Slurm backup controller in standby mode",
]
BUSY = [
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
    + FAILED
    + "Resource temporarily unavailable",
    "sbatch: error: Slurm job queue full, sleeping and retrying\n" + FAILED + "Unable to create job record, try again",
    FAILED + "I/O error writing script/environment to file",
    FAILED + "Required partition not available (inactive or drain)",
    FAILED + "Requested partition configuration not available now",
]
UNCLEAR = [
    FAILED + "Socket timed out on send/recv operation",
    FAILED + "Zero Bytes were transmitted or received",
    FAILED + "Unexpected message received",
    FAILED + "Message receive failure",
    FAILED + "Unable to contact slurm controller (send failure)",
    FAILED + "Unable to contact slurm controller (receive failure)",
    FAILED + "Unable to contact slurm controller (shutdown failure)",
    FAILED + "Protocol authentication error",
    FAILED + "Connection reset by peer",
    "sbatch: error: Slurm controller not responding, sleeping and retrying\n" + FAILED + "Invalid qos specification",
    "Your password expires tomorrow\n" + FAILED + "Frobnication of the flux failed",
    FAILED + "Frobnication of the flux failed",
    "Terminated",
    "",
]


@pytest.mark.parametrize(("stdout", "job"), ACCEPTED, ids=repr)
def test_accepted(stdout: str, job: Job) -> None:
    assert read_sbatch_answer(Finished(code=0, stdout=stdout, stderr="")) == Submitted(job=job, how="answered")


@pytest.mark.parametrize("stdout", NO_ID, ids=repr)
def test_an_answer_without_one_id_may_have_been_accepted(stdout: str) -> None:
    assert isinstance(read_sbatch_answer(Finished(code=0, stdout=stdout, stderr="")), Unclear)


@pytest.mark.parametrize("stderr", REFUSED, ids=repr)
def test_refused(stderr: str) -> None:
    assert isinstance(read_sbatch_answer(Finished(code=1, stdout="", stderr=stderr)), Refused)


@pytest.mark.parametrize("stderr", UNREACHABLE, ids=repr)
def test_never_handed_over(stderr: str) -> None:
    answer = read_sbatch_answer(Finished(code=1, stdout="", stderr=stderr))
    assert isinstance(answer, NotAccepted)
    assert answer.cause == "unreachable"


@pytest.mark.parametrize("stderr", BUSY, ids=repr)
def test_not_now(stderr: str) -> None:
    answer = read_sbatch_answer(Finished(code=1, stdout="", stderr=stderr))
    assert isinstance(answer, NotAccepted)
    assert answer.cause == "busy"


@pytest.mark.parametrize("stderr", UNCLEAR, ids=repr)
def test_what_may_have_arrived_is_unclear(stderr: str) -> None:
    assert isinstance(read_sbatch_answer(Finished(code=1, stdout="", stderr=stderr)), Unclear)


@pytest.mark.parametrize(
    "answer",
    [
        CutShort(after_s=180, stderr=""),
        CutShort(after_s=180, stderr=FAILED + "Invalid qos specification"),
        Finished(code=-9, stdout="", stderr=""),
        Finished(code=-15, stdout="4711\n", stderr=""),
        Finished(code=137, stdout="", stderr=""),
        Finished(code=1, stdout="4711\n", stderr="wrapper: cannot write the log: Permission denied"),
    ],
    ids=repr,
)
def test_ended_between_request_and_answer(answer: CommandAnswer) -> None:
    assert isinstance(read_sbatch_answer(answer), Unclear)


def test_sbatch_that_was_never_started_has_submitted_nothing() -> None:
    answer = read_sbatch_answer(NotStarted(reason="Permission denied"))
    assert answer == NotAccepted(reason="sbatch cannot be started: Permission denied", cause="unreachable")


def test_reasons_are_in_the_words_of_slurm() -> None:
    assert said(REFUSED[0]) == "invalid partition specified: nope; Invalid partition name specified"
    assert len(said("x" * 10_000)) == 500


@given(st.integers(-64, 255), st.text(max_size=80), st.text(max_size=80))
def test_every_answer_has_a_meaning_and_only_success_with_an_id_is_a_job(code: int, out: str, err: str) -> None:
    answer = read_sbatch_answer(Finished(code=code, stdout=out, stderr=err))
    assert not isinstance(answer, Submitted) or (code == 0 and answer.job.job_id in out)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Finished(code=0, stdout="", stderr=""), None),
        (Finished(code=1, stdout="", stderr="1_0-3: Job has already finished\n"), None),
        (Finished(code=1, stdout="", stderr="Invalid job id specified for job 99\n"), None),
        (Finished(code=1, stdout="", stderr="Job is no longer pending execution for job 5\n"), None),
        (Finished(code=1, stdout="", stderr="slurm_suspend error: Access/permission denied\n"), "slurm_suspend error"),
        (Finished(code=1, stdout="", stderr=""), "ended with 1"),
        (CutShort(after_s=60, stderr=""), "within 60 s"),
        (NotStarted(reason="there is no command 'scontrol' in the PATH"), "no command"),
    ],
    ids=repr,
)
def test_why_a_job_was_not_released(answer: CommandAnswer, reason: str | None) -> None:
    found = why_not(answer)
    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            Finished(code=1, stdout="", stderr="allocation failure: Requested node configuration is not available\n"),
            True,
        ),
        (Finished(code=1, stdout="", stderr="allocation failure: Node count specification invalid\n"), True),
        (
            Finished(code=0, stdout="", stderr="sbatch: Job 12 to start at 2026-01-01T10:00:00 using 64 processors\n"),
            False,
        ),
        (Finished(code=1, stdout="", stderr="allocation failure: Requested nodes are busy\n"), False),
        (Finished(code=1, stdout="", stderr="allocation failure: Job violates accounting/QOS policy\n"), False),
        (CutShort(after_s=60, stderr="Node count specification invalid"), False),
        (NotStarted(reason="no sbatch"), False),
    ],
    ids=repr,
)
def test_what_speaks_against_a_job_that_was_accepted(answer: CommandAnswer, reason: bool) -> None:
    assert (doubt(answer) is not None) == reason
