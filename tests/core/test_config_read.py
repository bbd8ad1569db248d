"""Whole files: what is accepted, what is said about bad ones, and which cluster is meant."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from core.config.flags import VLLM, flag_name, owner
from core.config.located import Located
from core.config.profile import ProfileCatalog
from core.config.profile_rules import choose_cluster
from core.config.read import read_profile_catalog, read_run_file
from core.config.run_config import RunConfig
from core.config.secrets import is_secret_name
from core.outcome import problems_of
from core.report import as_text, report
from tests.conftest import Golden
from tests.core.authored_form import as_authored

CASES = Path(__file__).parents[1] / "golden_config"
BAD = sorted(path.name for path in CASES.iterdir() if path.name != "good")
GOOD_RUNS = ["short.yaml", "every_documented_field.yaml", "every_new_field.yaml"]


def run_file(name: str) -> Located[RunConfig]:
    outcome = read_run_file(name, (CASES / "good" / name).read_bytes())
    assert is_successful(outcome), "\n".join(map(as_text, problems_of(outcome)))
    return outcome.unwrap()


def catalog(text: str) -> Located[ProfileCatalog]:
    outcome = read_profile_catalog("profiles.yaml", text.encode())
    assert is_successful(outcome), "\n".join(map(as_text, problems_of(outcome)))
    return outcome.unwrap()


@pytest.mark.parametrize("case", BAD)
def test_what_is_said_about_a_bad_file(case: str, golden: Golden) -> None:
    given_file = next(path for path in (CASES / case).iterdir() if path.name != "problems.txt")
    read = read_profile_catalog if given_file.stem == "catalog" else read_run_file
    problems = problems_of(read(given_file.name, given_file.read_bytes()))
    assert problems
    golden(CASES / case / "problems.txt", "".join(f"{as_text(problem)}\n" for problem in problems))


@pytest.mark.parametrize("case", BAD)
def test_problems_come_in_the_order_of_the_file(case: str) -> None:
    given_file = next(path for path in (CASES / case).iterdir() if path.name != "problems.txt")
    read = read_profile_catalog if given_file.stem == "catalog" else read_run_file
    problems = problems_of(read(given_file.name, given_file.read_bytes()))
    places = [(problem.at.line or 0, problem.at.path) for problem in problems]
    assert places == sorted(places)
    assert all(problem.at.line for problem in problems)


def test_secrets_are_never_repeated() -> None:
    assert "this-stays-secret" in (CASES / "secrets" / "run.yaml").read_text()
    assert "this-stays-secret" not in (CASES / "secrets" / "problems.txt").read_text()


@pytest.mark.parametrize("name", GOOD_RUNS)
def test_a_good_file_goes_round_through_json(name: str) -> None:
    config = run_file(name).value
    again = read_run_file("again.json", json.dumps(as_authored(config), indent=2).encode())
    assert is_successful(again), "\n".join(map(as_text, problems_of(again)))
    assert again.unwrap().value == config


def test_a_documented_file_means_what_it_says() -> None:
    located = run_file("every_documented_field.yaml")
    config = located.value
    writer, judge = config.deployments
    assert (config.submission.time_limit, config.submission.partition) == ("1-12:00:00", ("gpu", "gpu-long"))
    assert (writer.server.lead_boot_standoff, writer.topology.nodes_per_replica) == ("0s", 1)
    assert (writer.served_name, judge.served_name) == ("lab/writer", "lab/judge")
    assert config.builder is not None
    assert '"prompt":"Write about ${topic} and {{ topic }}. yes: no"' in (config.builder.inline or "")
    assert located.at("deployments[1].server.image.name").line == located.at("deployments[1].server.image").line


def test_defaults_are_the_documented_ones() -> None:
    text = "schema_version: 1\nname: x\nbuilder: {source: a.yaml}\ninvocation: {num_records: 1}\n"
    outcome = read_run_file("x.yaml", f"{text}deployments: [{{model_alias: a, model: b/c}}]\n".encode())
    assert is_successful(outcome)
    config = outcome.unwrap().value
    server = config.deployments[0].server
    assert (server.startup_timeout, server.distributed_init_timeout) == ("15m", "10m")
    assert (server.lead_boot_standoff, server.rank_launch_stagger) == ("60s", "5s")
    assert server.queue_backpressure is not None
    assert (server.queue_backpressure.max_waiting_requests, server.queue_backpressure.retry_after_seconds) == (128, 1)
    assert (config.submission.time_limit, config.submission.job_name) == ("03:55:00", "data-designer")
    assert (config.client.cpus, config.output.format, config.array_tasks.count) == (16, "parquet", 1)


@pytest.mark.parametrize("limit", ["12:00:00", "01:00:00", '"12:00:00"', "1-00:00:00"])
def test_a_time_limit_needs_no_quotes(limit: str) -> None:
    text = (CASES / "good" / "short.yaml").read_text().replace('"12:00:00"', limit)
    outcome = read_run_file("run.yaml", text.encode())
    assert is_successful(outcome)
    assert outcome.unwrap().value.submission.time_limit == limit.strip('"')


@given(st.sampled_from(["a.yaml", "a.json", "-"]), st.binary(max_size=60))
def test_any_bytes_give_an_answer(source: str, content: bytes) -> None:
    for outcome in (read_run_file(source, content), read_profile_catalog(source, content)):
        assert all(as_text(problem) for problem in problems_of(outcome))
        assert problems_of(outcome)


@given(st.data())
def test_cut_and_patched_files_give_an_answer(data: st.DataObject) -> None:
    text = (CASES / "good" / data.draw(st.sampled_from(GOOD_RUNS))).read_text()
    place = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(place, min(len(text), place + 30)))
    patched = text[:place] + data.draw(st.text(" :-[]{}\n'\"&*!#ax0", max_size=4)) + text[end:]
    assert all(as_text(problem) for problem in problems_of(read_run_file("a.yaml", patched.encode())))


# --- flags of vLLM ---


def test_which_flags_of_vllm_are_refused(golden: Golden) -> None:
    """All flags of a real `vllm serve --help`: what is refused is meant to be, all others are free."""
    flags = (CASES.parent / "facts" / "vllm_serve_flags_0.32.txt").read_text().split()
    names = [flag_name(flag) or "" for flag in flags]
    refused = [name for name in names if owner(name, VLLM)]
    secret = [name for name in names if is_secret_name(name) and name not in refused]
    assert secret == ["allow-credentials", "hf-token"]
    golden(CASES.parent / "facts" / "vllm_serve_flags_refused.txt", "".join(f"--{name}\n" for name in refused))


@given(st.sampled_from([name for name, _ in VLLM.names if name not in VLLM.free]), st.data())
def test_every_spelling_of_an_owned_flag_is_refused(name: str, data: st.DataObject) -> None:
    short = name[: data.draw(st.integers(1, len(name)))].rstrip("-")
    if short in VLLM.free:
        return
    flag = flag_name(
        data.draw(st.sampled_from(["--", "--no-"])) + data.draw(st.sampled_from([short, short.replace("-", "_")]))
    )
    assert flag is not None
    assert owner(flag, VLLM) is not None


# --- clusters ---

TWO = """
schema_version: 1
default_cluster: main
clusters:
  main: {workspace_root: /a, host_patterns: ["login*.example.org", "Front"]}
  lab: {workspace_root: /b, host_patterns: ["lab-[0-9]*"]}
"""


@pytest.mark.parametrize(
    ("wanted", "hostname", "chosen"),
    [
        (None, "laptop", "main"),
        (None, "", "main"),
        (None, "lab-7", "lab"),
        (None, "LAB-7.example.net", "lab"),
        (None, "front.example.net", "main"),
        ("lab", "login1.example.org", "lab"),
        ("main", "lab-7", "main"),
    ],
)
def test_a_cluster_is_chosen_by_name_then_host_then_default(wanted: str | None, hostname: str, chosen: str) -> None:
    outcome = choose_cluster(catalog(TWO), wanted, hostname)
    assert is_successful(outcome)
    name, profile = outcome.unwrap()
    assert (name, profile.workspace_root) == (chosen, {"main": "/a", "lab": "/b"}[chosen])


def test_a_cluster_that_is_not_there() -> None:
    (problem,) = problems_of(choose_cluster(catalog(TWO), "mian", "x"))
    assert "no cluster is called 'mian'" in as_text(problem)
    assert "did you mean 'main'?" in as_text(problem)


def test_a_host_of_two_clusters() -> None:
    text = TWO.replace('"lab-[0-9]*"', '"log*"')
    (problem,) = problems_of(choose_cluster(catalog(text), None, "login1.example.org"))
    assert report(problem).code == "wrong-combination"
    assert is_successful(choose_cluster(catalog(text), "lab", "login1.example.org"))


def test_a_port_outside_the_range() -> None:
    text = "schema_version: 1\nclusters: {a: {workspace_root: /a, ports: {range: [80, 90000]}}}"
    texts = [as_text(problem) for problem in problems_of(read_profile_catalog("p.yaml", text.encode()))]
    assert ["expected a whole number from 1024 to 65535" in said for said in texts] == [True, True]


def test_the_only_cluster_needs_no_default() -> None:
    one = catalog("schema_version: 1\nclusters: {only: {workspace_root: /a}}")
    assert choose_cluster(one, None, "x").unwrap()[0] == "only"
    two = catalog("schema_version: 1\nclusters: {a: {workspace_root: /a}, b: {workspace_root: /b}}")
    assert [report(problem).code for problem in problems_of(choose_cluster(two, None, "x"))] == ["missing-field"]


def test_a_good_catalog() -> None:
    found = catalog((CASES / "good" / "catalog.yaml").read_text()).value
    main, lab = (cluster.value for cluster in found.clusters)
    assert (main.gpus_per_node, lab.gpus_per_node, lab.gpu_request_mode) == (8, "auto", "visible")
    assert main.image_build is not None
    assert main.image_build.time_limit == "100:00:00"


def test_a_catalog_with_every_new_field() -> None:
    found = catalog((CASES / "good" / "new_catalog.yaml").read_text()).value.clusters[0].value
    assert found.ports is not None
    assert found.ports.range == (20000, 29999)
    assert found.srun_extra_args == ("--cpu-bind=none", "--network=single_node_vni")
    assert [image.name for image in found.images] == ["vllm", "other"]
