"""What Slurm granted: real environments, and everything that can be wrong with them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.problem import At
from core.report import report
from core.slurm.allocation import Allocation, ArrayTask, parse_allocation, parse_counts
from core.slurm.gpus import GpuCount, GpuIndices

FACTS = Path(__file__).parents[1] / "facts" / "slurm"
ENVIRONMENTS = sorted((FACTS / "env").iterdir())
JOB = {
    "SLURM_JOB_ID": "5",
    "SLURM_JOB_NODELIST": "c[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_CPUS_PER_NODE": "8(x2)",
    "SLURM_CLUSTER_NAME": "lab",
    "SLURMD_NODENAME": "c1",
}


def variables(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if not line.startswith("srun: "))
    return dict(line.split("=", 1) for line in lines)


def granted(environ: dict[str, str], *outputs: str | None) -> Allocation:
    return parse_allocation(environ, *outputs).unwrap()


def codes(environ: dict[str, str], *outputs: str | None) -> list[tuple[str, str]]:
    return [(said.code, said.path) for said in map(report, parse_allocation(environ, *outputs).failure())]


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_real_batch_environments_say_gpus_of_their_own_node_only(path: Path) -> None:
    environ = variables(path.read_text().partition("---step\n")[0])
    allocation = granted(environ, "c1\nc2\n")
    assert allocation.hosts == ("c1", "c2")
    assert allocation.cluster == "slurmlab"
    here = GpuIndices(indices=tuple(map(int, environ["SLURM_JOB_GPUS"].split(","))))
    assert [node.gpus for node in allocation.nodes] == [here, None]


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_inside_a_step_nobody_knows_whose_gpus_the_variables_mean(path: Path) -> None:
    environ = variables(path.read_text().partition("---step\n")[2])
    assert environ["SLURMD_NODENAME"] == "c2"  # and SLURM_JOB_GPUS is what c1 has
    assert [node.gpus for node in granted(environ).nodes] == [None, None]


def test_only_the_count_on_the_own_node_may_be_known() -> None:
    assert granted(JOB | {"SLURM_GPUS_ON_NODE": "3"}).nodes[0].gpus == GpuCount(count=3, type=None)


def test_the_details_of_the_job_say_it_for_all_nodes() -> None:
    output = (FACTS / "show_job" / "het-running" / "d-o.txt").read_text()
    environ = JOB | {"SLURM_JOB_ID": "25", "SLURM_JOB_NODELIST": "c[2-3]", "SLURM_JOB_GPUS": "7"}
    allocation = granted(environ | {"SLURMD_NODENAME": "c2"}, None, output)
    assert [node.gpus for node in allocation.nodes] == [GpuIndices(indices=(0, 1))] * 2
    assert allocation.time_left_s == 3598


def test_the_job_of_somebody_else_says_nothing() -> None:
    output = (FACTS / "show_job" / "het-running" / "d-o.txt").read_text()
    allocation = granted(JOB, None, output)
    assert (allocation.time_left_s, allocation.nodes[0].gpus) == (None, None)


def test_everything_that_is_said_is_kept() -> None:
    array = {"SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "1", "SLURM_RESTART_COUNT": "2"}
    allocation = granted(JOB | array | {"SLURM_JOB_END_TIME": "1790000000"}, None, None, "slurm-wlm 22.05.8\n")
    assert allocation.array == ArrayTask(job_id="4", task_id=1)
    assert (allocation.restart_count, allocation.end_time_s) == (2, 1_790_000_000)
    assert allocation.slurm_version is not None
    assert allocation.slurm_version.text == "22.05.8"
    assert [node.cpus for node in allocation.nodes] == [8, 8]


def test_names_keep_their_case_and_order() -> None:
    environ = JOB | {"SLURM_JOB_NODELIST": "GPU-a2,gpu-A1", "SLURM_PROCID": "0"}
    assert granted(environ, "GPU-a2\ngpu-A1\n").hosts == ("GPU-a2", "gpu-A1")


@pytest.mark.parametrize("output", [None, "n3\nn1\n"])
def test_2_6_a_list_that_is_not_sorted_stays_so(output: str | None) -> None:
    """Slurm lists nodes by switch or in the order of a host file, and ranks follow it."""
    environ = JOB | {"SLURM_JOB_NODELIST": "n3,n1", "SLURM_PROCID": "0", "SLURMD_NODENAME": "n1"}
    assert granted(environ, output).hosts == ("n3", "n1")


def test_a_list_that_only_scontrol_can_expand_is_believed_with_its_count() -> None:
    environ = JOB | {"SLURM_JOB_NODELIST": "n[1-2]-ib"}
    assert granted(environ, "n1-ib\nn2-ib\n").hosts == ("n1-ib", "n2-ib")
    assert codes(environ) == [("malformed", "SLURM_JOB_NODELIST")]
    assert codes(environ, "n1-ib\n") == [("node-count-mismatch", "SLURM_JOB_NUM_NODES")]


def test_outside_of_a_job() -> None:
    assert codes({}) == [("not-in-allocation", "SLURM_JOB_ID"), ("not-in-allocation", "SLURM_JOB_NODELIST")]


@pytest.mark.parametrize("nodes", ["", "(null)", "None assigned"])
def test_an_empty_allocation(nodes: str) -> None:
    assert codes(JOB | {"SLURM_JOB_NODELIST": nodes}) == [("not-in-allocation", "SLURM_JOB_NODELIST")]


@pytest.mark.parametrize(
    "output", ["", "n]\n", "n]\n2\n", "(null)\n", "None\nassigned\n", "c1\nc3\n", "c2\nc1\n", "c1\n"]
)
def test_scontrol_always_exits_0_so_its_names_are_judged(output: str) -> None:
    found = codes(JOB, output)
    assert ("malformed", "") in found


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({"SLURM_JOB_NUM_NODES": "3"}, [("node-count-mismatch", "SLURM_JOB_NUM_NODES")]),
        ({"SLURM_JOB_NUM_NODES": "two"}, [("malformed", "SLURM_JOB_NUM_NODES")]),
        ({"SLURM_JOB_NODELIST": "c1,c1"}, [("not-unique", "SLURM_JOB_NODELIST")]),
        ({"SLURM_JOB_NODELIST": "c[1-"}, [("malformed", "SLURM_JOB_NODELIST")]),
        ({"SLURM_JOB_CPUS_PER_NODE": "8(x3)"}, [("node-count-mismatch", "SLURM_JOB_CPUS_PER_NODE")]),
        ({"SLURM_JOB_CPUS_PER_NODE": "8(y2)"}, [("malformed", "SLURM_JOB_CPUS_PER_NODE")]),
        ({"SLURM_RESTART_COUNT": "-1"}, [("malformed", "SLURM_RESTART_COUNT")]),
        ({"SLURM_JOB_GPUS": "0,0"}, [("malformed", "SLURM_JOB_GPUS")]),
        (
            {"SLURM_JOB_CPUS_PER_NODE": "x", "SLURM_JOB_GPUS": "x y"},
            [("malformed", "SLURM_JOB_CPUS_PER_NODE"), ("malformed", "SLURM_JOB_GPUS")],
        ),
    ],
)
def test_contradictions(change: dict[str, str], problems: list[tuple[str, str]]) -> None:
    assert codes(JOB | change) == problems


def test_independent_inputs_are_all_reported() -> None:
    found = codes({"SLURM_JOB_NODELIST": "c1", "SLURM_ARRAY_TASK_ID": "x"}, "n]\n", "no job", "slurm 19.05")
    assert [code for code, _ in found] == ["not-in-allocation", "malformed", "malformed", "malformed", "version-unfit"]


@pytest.mark.parametrize(("text", "counts"), [("8", (8,)), ("8(x2),4", (8, 8, 4)), ("1(x1)", (1,))])
def test_compressed_counts(text: str, counts: tuple[int, ...]) -> None:
    assert parse_counts(text, At(source="test")).unwrap() == counts


@given(st.text(alphabet="0123456789(x),", max_size=12) | st.text(max_size=12))
def test_any_counts_are_read_or_refused(text: str) -> None:
    found = parse_counts(text, At(source="test"))
    assert is_successful(found) or found.failure()


VALUES = st.sampled_from(["", "0", "2", "c[1-2]", "c1", "(null)", "8(x2)", "x", "0,1", "c[1-9999999]"])


@given(
    st.dictionaries(st.sampled_from([*JOB, "SLURM_JOB_GPUS", "SLURM_RESTART_COUNT"]), VALUES | st.text(max_size=5)),
    st.none() | st.sampled_from(["", "c1\nc2\n", "n]\n"]) | st.text(max_size=9),
    st.none() | st.text(max_size=9),
)
def test_any_environment_is_read_or_refused(environ: dict[str, str], names: str | None, jobs: str | None) -> None:
    found = parse_allocation(environ, names, jobs)
    assert is_successful(found) or found.failure()
    assert not is_successful(found) or found.unwrap().nodes
