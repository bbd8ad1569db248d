"""Jobs as scontrol prints them: a golden file per state that a real cluster was seen in, and laws."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.codec import canonical_json
from core.problem import Malformed
from core.slurm.gpus import GpuIndices, NoGpus
from core.slurm.scontrol import ArrayPart, JobRecord, parse_duration_s, parse_show_job, time_left_s
from tests.conftest import Golden

STATES = sorted(path for path in (Path(__file__).parents[1] / "facts" / "slurm" / "show_job").iterdir())
LINE = (STATES[0].parent / "completed" / "d-o.txt").read_text().strip()


def job(line: str) -> JobRecord:
    (record,) = parse_show_job(line).unwrap()
    return record


def test_states_were_seen() -> None:
    assert len(STATES) > 40


@pytest.mark.parametrize("state", STATES, ids=lambda path: path.name)
def test_jobs(state: Path, golden: Golden) -> None:
    jobs = parse_show_job((state / "d-o.txt").read_text())
    golden(state / "parsed.json", canonical_json(jobs.unwrap()).decode())


@pytest.mark.parametrize("state", STATES, ids=lambda path: path.name)
def test_without_details_the_rest_is_the_same(state: Path) -> None:
    detailed = parse_show_job((state / "d-o.txt").read_text()).unwrap()
    plain = parse_show_job((state / "o.txt").read_text()).unwrap()
    # Between the two calls a second may pass and a pending job may get an estimate of its start.
    fixed = [msgspec.structs.replace(record, shares=(), run_time_s=0, started=None, ends=None) for record in detailed]
    assert [msgspec.structs.replace(record, run_time_s=0, started=None, ends=None) for record in plain] == fixed


def test_the_waiting_tasks_of_an_array_are_one_record() -> None:
    jobs = parse_show_job((STATES[0].parent / "array-running" / "d-o.txt").read_text()).unwrap()
    assert [record.array for record in jobs] == [
        ArrayPart(job_id="11", tasks="2-7%2"),
        ArrayPart(job_id="11", tasks="1"),
        ArrayPart(job_id="11", tasks="0"),
    ]


def test_components_of_a_het_job_keep_their_gpus() -> None:
    jobs = parse_show_job((STATES[0].parent / "het-running" / "d-o.txt").read_text()).unwrap()
    assert [(record.het.offset, record.shares[0].nodes, record.shares[0].gpus) for record in jobs if record.het] == [
        (0, "c1", GpuIndices(indices=(0, 1, 2, 3))),
        (1, "c[2-3]", GpuIndices(indices=(0, 1))),
    ]


def test_names_that_look_like_fields_change_nothing() -> None:
    spoofed = "x JobState=FAILED NodeList=evil UserId=mallory(7) a=b"
    record = job(LINE.replace("JobName=completed", f"JobName={spoofed}"))
    assert (record.name, record.user, record.state) == (spoofed, "root", "COMPLETED")
    assert record.node_list == "c[1-2]"


def test_comments_and_commands_that_look_like_fields_change_nothing() -> None:
    line = LINE.replace("Command=(null)", "Command=/x y.sh JobState=FAILED Nodes=c9 CPU_IDs=0 Mem=1 GRES=gpu:9")
    record = job(line.replace('hello "world"', "Restarts=9 ExitCode=1:0"))
    assert (record.state, record.restarts, len(record.shares)) == ("COMPLETED", 0, 1)
    assert record.comment == "Restarts=9 ExitCode=1:0"


def test_several_kinds_of_nodes() -> None:
    share = "Nodes=c[1-2] CPU_IDs=0 Mem=100 GRES="
    more = f"{share}gpu:fake:2(IDX:0-1,3),craynetwork:1   Nodes=d1 CPU_IDs=0-3,8 Mem=2000 GRES="
    shares = job(LINE.replace(share, more)).shares
    assert [(held.nodes, held.cpu_ids, held.mem_mib) for held in shares] == [
        ("c[1-2]", "0", 100),
        ("d1", "0-3,8", 2000),
    ]
    assert [held.gpus for held in shares] == [GpuIndices(indices=(0, 1, 3)), NoGpus()]


@pytest.mark.parametrize(
    ("limit", "run", "ends", "left"),
    [
        ("01:00:00", "00:10:00", "2026-11-30T04:24:43", 3000),
        ("1-00:00:00", "00:00:01", "2026-12-01T03:24:43", 86_399),
        ("00:01:00", "00:00:05", "2026-11-30T03:24:50", 2),  # the end was moved
        ("00:01:00", "00:01:05", "2026-11-30T03:25:43", 0),
        ("01:00:00", "00:10:00", "Unknown", 3000),
        ("UNLIMITED", "00:10:00", "Unknown", None),
    ],
)
def test_the_time_that_is_left(limit: str, run: str, ends: str, left: int | None) -> None:
    line = LINE.replace("TimeLimit=01:00:00", f"TimeLimit={limit}").replace("RunTime=00:00:00", f"RunTime={run}")
    assert time_left_s(job(line.replace("EndTime=2026-11-30T03:24:43", f"EndTime={ends}"))) == left


@pytest.mark.parametrize("text", ["slurm_load_jobs error: Invalid job id specified", "JobId=", "JobId=1 JobName=x"])
def test_what_is_no_job_is_refused_with_its_line(text: str) -> None:
    (problem,) = parse_show_job(f"{LINE}\n{text}\n").failure()
    assert isinstance(problem, Malformed)
    assert problem.at.line == 2


def test_a_gres_that_cannot_be_read_is_a_problem_of_its_line() -> None:
    (problem,) = parse_show_job(LINE.replace(" GRES= ", " GRES=gpu:2(IDX:0-x) ")).failure()
    assert (problem.at.path, problem.at.line) == ("GRES", 1)


@pytest.mark.parametrize("text", ["", "\n", "No jobs in the system\n"])
def test_no_jobs(text: str) -> None:
    assert parse_show_job(text).unwrap() == ()


@pytest.mark.parametrize(("text", "seconds"), [("02:03", 123), ("1-00:00:01", 86_401), ("INVALID", None), ("5", None)])
def test_durations(text: str, seconds: int | None) -> None:
    assert parse_duration_s(text) == seconds


WORDS = st.sampled_from([*LINE.split(" "), "Nodes=a[1-2]", "GRES=gpu:1", "JobId=x", "ExitCode=a:b", "NumNodes=9-x"])


@given(st.lists(WORDS | st.text(max_size=8), max_size=80).map(" ".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    jobs = parse_show_job(text)
    assert is_successful(jobs) or jobs.failure()


@given(st.integers(0, len(LINE)), st.text(max_size=12), st.integers(0, 12))
def test_any_damage_is_read_or_refused(start: int, text: str, cut: int) -> None:
    jobs = parse_show_job(LINE[:start] + text + LINE[start + cut :])
    assert not is_successful(jobs) or all(record.job_id and record.state for record in jobs.unwrap())
