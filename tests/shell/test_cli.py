"""``dd-slurm plan`` as users meet it: every example, and every way to write something that cannot work."""

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from typer.testing import CliRunner

from shell.cli import app

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CATALOG = str(EXAMPLES / "profiles.yaml")
PLANNED = [
    ("one_model", "small"),
    ("writer_and_judge", "small"),
    ("shared_node", "small"),
    ("own_program", "small"),
    ("large", "big"),
]

RUN = """schema_version: 1
name: run
builder:
  source: config.yaml
invocation:
  num_records: 10
deployments:
  - model_alias: writer
    model: /models/writer
    server:
      image: {name: stable}
    topology:
      tensor_parallel: 2
"""
SITE = """schema_version: 1
clusters:
  hpc:
    workspace_root: /scratch/me
    gpus_per_node: 8
    container_mounts:
      - {source: /models, target: /models}
    images:
      stable: {path: /images/a.sqsh}
    ports:
      range: [20000, 29999]
"""


class Said:
    """What one call answered."""

    def __init__(self, *words: str) -> None:
        result = CliRunner().invoke(app, list(words))
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        assert "Traceback" not in self.err


@pytest.fixture(autouse=True)
def no_profile_of_the_tester(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DD_SLURM_PROFILE_FILE", raising=False)
    monkeypatch.delenv("DATA_DESIGNER_SLURM_PROFILE_FILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize(("example", "cluster"), PLANNED)
def test_every_example_is_planned_for_people(example: str, cluster: str) -> None:
    said = Said("plan", str(EXAMPLES / example / "run.yaml"), "--profile-file", CATALOG, "--cluster", cluster)
    assert said.code == 0, said.err
    assert said.err == ""
    assert "asked of Slurm" in said.out
    assert "\x1b" not in said.out


@pytest.mark.parametrize(("example", "cluster"), PLANNED)
def test_every_example_is_planned_for_programs(example: str, cluster: str) -> None:
    said = Said("plan", str(EXAMPLES / example / "run.yaml"), "--profile-file", CATALOG, "--cluster", cluster, "--json")
    assert said.code == 0, said.err
    plan = json.loads(said.out)
    assert plan["schema_version"] == 1
    assert plan["site"]["cluster"] == cluster
    assert plan["deployments"]


def test_every_example_is_tested() -> None:
    assert {path.parent.name for path in EXAMPLES.glob("*/run.yaml")} == {example for example, _ in PLANNED}


def authored(folder: Path, run: str = RUN, site: str = SITE) -> tuple[str, str, str]:
    (folder / "run.yaml").write_text(run)
    (folder / "profiles.yaml").write_text(site)
    if not (folder / "config.yaml").exists():
        (folder / "config.yaml").write_text("columns: []\n")
    return str(folder / "run.yaml"), "--profile-file", str(folder / "profiles.yaml")


BAD = {
    "malformed yaml": ((("name: run", "name: [run"),), (), "bad-syntax", "", 3, "syntax"),
    "unknown field": ((("model: /", "modle: /"),), (), "unknown-field", "deployments[0].modle", 9, "'model'"),
    "tp that does not divide": (
        (("parallel: 2", "parallel: 3"),), (), "gpus-not-divisible", "deployments[0].topology", 12, "1, 2, 4 or 8"
    ),
    "model not under a mount": (
        ((": /models/w", ": /data/w"),), (), "path-not-mounted", "deployments[0].model", 9, "container_mounts"
    ),
    "duplicate alias": (
        (("deployments:\n", "deployments:\n  - {model_alias: writer, model: a, server: {image: {name: stable}}}\n"),),
        (), "not-unique", "deployments[1].model_alias", 9, "another model alias",
    ),
    "ports too few": (
        (), (("29999", "20100"),), "ports-exhausted", "clusters.hpc.ports.range", 11, "widen ports.range"
    ),
    "secret as literal": (
        (("{name: stable}", "{name: stable}\n      environment: {HF_TOKEN: {type: literal, value: hf_abc}}"),),
        (), "secret-literal", "deployments[0].server.environment.HF_TOKEN", 12, "secret, environment",
    ),
    "builder not there": (
        (("config.yaml", "other.yaml"),), (), "unreadable", "builder.source", 4, "check the path"
    ),
    "no records": ((("records: 10", "records: 0"),), (), "malformed", "invocation.num_records", 6, "at least 1"),
    "more tasks than records": (
        (("name: run", "name: run\narray_tasks: {count: 11}"),),
        (), "too-many-shards", "array_tasks.count", 3, "at most 10",
    ),
    "image that nobody knows": (
        (("name: stable", "name: stabel"),), (), "unknown-name", "deployments[0].server.image.name", 11, "'stable'"
    ),
}  # fmt: skip
Change = tuple[tuple[str, str], ...]


def changed(text: str, changes: Change) -> str:
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_work_is_refused_in_words(name: str, tmp_path: Path) -> None:
    run, site, code, path, line, hint = BAD[name]
    files = authored(tmp_path, changed(RUN, run), changed(SITE, site))
    said = Said("plan", *files, "--json")
    assert said.code == 65
    problems = json.loads(said.out)["problems"]
    matching = [problem for problem in problems if problem["code"] == code]
    assert len(matching) == 1, problems
    assert (matching[0]["path"], matching[0]["line"]) == (path, line)
    assert hint in matching[0]["hint"]
    assert f"[{code}]" in said.err
    assert "hint: " in said.err
    text = Said("plan", *files)
    assert (text.code, text.out, text.err) == (65, "", said.err)


def test_the_base_of_the_bad_files_is_good(tmp_path: Path) -> None:
    assert Said("plan", *authored(tmp_path)).code == 0


def test_a_secret_is_not_repeated(tmp_path: Path) -> None:
    changes, _, *_rest = BAD["secret as literal"]
    said = Said("plan", *authored(tmp_path, changed(RUN, changes)), "--json")
    assert "hf_abc" not in said.out + said.err


def test_problems_of_all_files_come_together(tmp_path: Path) -> None:
    files = authored(tmp_path, RUN.replace("config.yaml", "other.yaml"), SITE.replace("gpus_per_node", "gpu_per_node"))
    said = Said("plan", *files, "--json")
    assert said.code == 65
    assert [problem["code"] for problem in json.loads(said.out)["problems"]] == ["unreadable", "unknown-field"]


def test_a_missing_builder_does_not_hide_what_does_not_fit(tmp_path: Path) -> None:
    run = changed(RUN, (("config.yaml", "other.yaml"), ("parallel: 2", "parallel: 3")))
    said = Said("plan", *authored(tmp_path, run), "--json")
    assert {problem["code"] for problem in json.loads(said.out)["problems"]} == {"unreadable", "gpus-not-divisible"}


def test_folders_in_place_of_files(tmp_path: Path) -> None:
    run, flag, site = authored(tmp_path)
    for words in ((str(tmp_path), flag, site), (run, flag, str(tmp_path))):
        said = Said("plan", *words)
        assert said.code == 65
        assert f"{tmp_path}: found a folder, expected an ordinary file" in said.err
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").mkdir()
    assert "builder.source" in Said("plan", run, flag, site).err


def _no_file(path: Path, kind: str) -> str:
    """Put something else where a file is expected; where that is."""
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    else:
        with path.open("wb") as file:
            file.truncate(65 << 20)
    return str(path)


def _limits() -> None:
    """A reader without an end is stopped before it takes the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


@pytest.mark.parametrize(
    ("kind", "name", "place"),
    [
        ("a pipe", "run.yaml", "run.yaml: found a pipe, "),
        ("a pipe", "profiles.yaml", "profiles.yaml: found a pipe, "),
        ("a pipe", "config.yaml", "run.yaml:4: builder.source: found a pipe at "),
        ("a device", "run.yaml", "run.yaml: found a device, "),
        ("a socket", "run.yaml", "run.yaml: found a socket, "),
        ("65 MiB", "run.yaml", "run.yaml: found 65 MiB, "),
    ],
)
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path: Path, kind: str, name: str, place: str) -> None:
    """In a process of its own, which may not wait for a pipe or read without an end."""
    words = authored(tmp_path)
    path = _no_file(tmp_path / name, kind)
    assert path.endswith(name)
    command = [sys.executable, "-m", "shell.cli", "plan", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, preexec_fn=_limits)
    assert ended.returncode == 65
    assert place in ended.stderr
    assert ended.stderr.count(path) == 1
    assert "expected an ordinary file of at most 64 MiB" in ended.stderr


def test_files_that_are_not_there(tmp_path: Path) -> None:
    run, flag, site = authored(tmp_path)
    for words in ((run + "x", flag, site), (run, flag, site + "x")):
        said = Said("plan", *words)
        assert said.code == 65
        missing = next(word for word in words if word.endswith("x"))
        assert said.err.startswith(f"{missing}: cannot be read: No such file or directory [unreadable]\n")
    assert Said("plan", run, flag, "/nope").err.startswith("/nope: cannot be read: No such file or directory")


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)), b"\xff\xfe", b"", b"\x00"])
def test_a_file_that_is_no_text(tmp_path: Path, content: bytes) -> None:
    run, flag, site = authored(tmp_path)
    Path(run).write_bytes(content)
    said = Said("plan", run, flag, site)
    assert said.code == 65
    assert "run.yaml" in said.err
    assert "hint: " in said.err


def test_a_cluster_that_is_not_in_the_catalog(tmp_path: Path) -> None:
    said = Said("plan", *authored(tmp_path), "--cluster", "hcp")
    assert said.code == 65
    assert "did you mean 'hpc'?" in said.err


def test_a_cluster_without_any_catalog(tmp_path: Path) -> None:
    said = Said("plan", authored(tmp_path)[0], "--cluster", "foo")
    assert (said.code, said.out) == (65, "")
    assert said.err.startswith("no catalog of clusters: --cluster: no cluster is called 'foo' [unknown-name]\n")


def test_a_missing_image_is_missed_for_a_reason(tmp_path: Path) -> None:
    run, site = changed(RUN, (("      image: {name: stable}\n", "      executor: mp\n"),)), SITE
    other = run + "  - {model_alias: judge, model: /models/j, server: {image: {name: stable}}}\n"
    site_with = site.replace("    gpus_per_node: 8\n", "    gpus_per_node: 8\n    container: pyxis\n")
    missing = "run.yaml:10: deployments[0].server.image: the field 'image' is missing: "
    assert f"{missing}the profile's container is pyxis [" in Said("plan", *authored(tmp_path, run, site_with)).err
    assert f"{missing}another deployment names an image, " in Said("plan", *authored(tmp_path, other, site)).err


def codes(said: Said) -> list[tuple[str, str]]:
    return [(problem["code"], problem["path"]) for problem in json.loads(said.out)["problems"]]


def test_other_mistakes_do_not_hide_what_does_not_fit_on_a_node(tmp_path: Path) -> None:
    run = changed(RUN, (("records: 10", "records: 0"), ("parallel: 2", "parallel: 3")))
    assert codes(Said("plan", *authored(tmp_path, run), "--json")) == [
        ("malformed", "invocation.num_records"),
        ("gpus-not-divisible", "deployments[0].topology"),
    ]


SHARE = "resources: {{shared_node: a, gpus_per_node: {}}}"


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("topology: {tensor_parallel: x}", "topology: {tensor_parallel: 5}", ["deployments[1].topology"]),
        ("topology: {tensor_paralel: 5}", "model: 3", []),
        ("topologi: {tensor_parallel: 3}", "topology: {tensor_parallel: 2}", []),
        ("resources: {gpus_per_node: 3}", "resources: {nodes: 0}", []),
        (SHARE.format(6), SHARE.format(6), ["deployments[0].topology"]),
        (SHARE.format(6), SHARE.format("x"), []),
        ("server: {enable_expert_parallel: 3}", "server: {image: 7}, topology: {tensor_parallel: 5}",
         ["deployments[1].topology"]),
    ],
)  # fmt: skip
def test_only_deployments_of_sound_sizes_are_placed_early(
    tmp_path: Path, first: str, second: str, found: list[str]
) -> None:
    both = "".join(f"  - {{model_alias: {alias}, model: m, {rest}}}\n" for alias, rest in (("a", first), ("b", second)))
    run = RUN.partition("  - ")[0].replace("records: 10", "records: 0") + both
    placed = ("gpus-not-divisible", "shared-node-overfull")
    assert [path for code, path in codes(Said("plan", *authored(tmp_path, run), "--json")) if code in placed] == found


def test_a_budget_decides_the_nodes_itself(tmp_path: Path) -> None:
    run = changed(
        RUN, (("records: 10", "records: 0"), ("parallel: 2", "parallel: 3"), ("name: run", "name: run\ngpu_budget: 3"))
    )
    assert codes(Said("plan", *authored(tmp_path, run), "--json")) == [("malformed", "invocation.num_records")]


def test_the_profile_is_found_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, _, site = authored(tmp_path)
    monkeypatch.setenv("DD_SLURM_PROFILE_FILE", site)
    assert json.loads(Said("plan", run, "--json").out)["site"]["cluster"] == "hpc"


def test_without_a_profile_a_plan_says_so(tmp_path: Path) -> None:
    run, *_ = authored(tmp_path)
    said = Said("plan", run)
    assert said.code == 0
    assert said.out.startswith("no profile")


def test_a_workspace_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text("{schema_version: 1, name: r, client: {command: [pwd]}, deployments: [{model_alias: w, model: m}]}")
    (tmp_path / "file").touch()
    said = Said("rehearse", str(run), "--workspace", str(tmp_path / "file"))
    assert said.code == 65
    assert f"workspace: '{tmp_path}/file' cannot be written: Not a directory [unwritable]" in said.err


def test_the_version_is_the_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert Said("--version").out == f"dd-slurm {project['version']}\n"


@pytest.mark.parametrize("words", [("--help",), ("plan", "--help"), ("rehearse", "--help")])
def test_help(words: tuple[str, ...]) -> None:
    said = Said(*words)
    assert said.code == 0
    assert "Usage" in said.out


@pytest.mark.slow
def test_a_pipe_gets_no_colours_and_a_wrong_option_is_a_usage_error(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "shell.cli")
    shown = subprocess.run((*command, "plan", *authored(tmp_path)), cwd=ROOT, capture_output=True, check=True)
    wrong = subprocess.run((*command, "plan", "--bogus"), cwd=ROOT, capture_output=True, check=False)
    helped = subprocess.run((*command, "--help"), cwd=ROOT, capture_output=True, check=True)
    assert b"\x1b" not in shown.stdout + shown.stderr + wrong.stderr + helped.stdout
    assert wrong.returncode == 64
    assert b"Traceback" not in wrong.stderr


UNUSUAL = {
    "a locale without our letters": ("plan run.yaml", "PYTHONIOENCODING=ascii:strict", 0, r"\xf1"),
    "no output": ("plan run.yaml >&- 2>&-", "", 0, ""),
    "a folder that is gone": ("plan run.yaml", "GONE=1", 66, "the current folder is gone"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_surroundings(tmp_path: Path, case: str) -> None:
    words, setting, code, said = UNUSUAL[case]
    work = tmp_path / "work"
    work.mkdir()
    (work / "run.yaml").write_text(
        "{schema_version: 1, name: r, client: {command: [pwd]}, deployments: [{model_alias: w, model: ñ/m}]}", "utf-8"
    )
    start = (
        f"{'rm -r ../work; ' if setting == 'GONE=1' else ''}exec env {setting} {sys.executable} -m shell.cli {words}"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(("sh", "-c", start), cwd=work, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert said in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
