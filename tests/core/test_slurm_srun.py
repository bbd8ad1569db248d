"""The argv of steps: what every release needs, containers, and limits of Linux."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.problem import At
from core.slurm.containers import (
    Apptainer,
    Container,
    Mount,
    Pyxis,
    Setting,
    container_name,
    container_problems,
)
from core.slurm.hostnames import expand_hostlist
from core.slurm.srun import (
    LONGEST_WORD,
    StepRequest,
    serve_srun,
)
from core.slurm.versions import SlurmVersion, parse_slurm_version
from core.units import NodeName, StepName
from tests.conftest import Golden

AT = At(source="profile.yaml", path="srun_extra_args")
GOLDEN = Path(__file__).parents[1] / "golden_srun"
COMMAND = ("/opt/venv/bin/python", "-m", "shell.node", "serve", "--plan=/runs/r1/bound-0001.json")
IMAGE = "/images/vllm.sqsh"
MOUNTS = (Mount(source="/models", target="/models", read_only=True), Mount(source="/runs", target="/runs"))
RELEASES = (
    "20.11.9",
    "21.08.8",
    "22.05.8",
    "23.02.0",
    "23.02.7",
    "23.11.4",
    "24.05.1",
    "24.11.0",
    "25.05.2",
    "26.05.0",
)


def nodes(text: str) -> tuple[NodeName, ...]:
    return expand_hostlist(text, AT).unwrap()


def step(name: str, on: str, gpus: int | None = 8, container: Container = None) -> StepRequest:
    return StepRequest(
        name=StepName(name),
        nodes=nodes(on),
        command=COMMAND,
        host_list_file=f"/runs/r1/hosts-{name}",
        gpus_per_node=gpus,
        cpus_per_task=16,
        container=container,
    )


def version(text: str) -> SlurmVersion:
    return parse_slurm_version(text, AT).unwrap()


PYXIS = Pyxis(
    image=IMAGE,
    mounts=MOUNTS,
    environment=("HF_HOME", "PYTHONPATH"),
    workdir="/runs/r1",
    name=container_name("4711", "writer-0"),
)
APPTAINER = Apptainer(
    image="/images/vllm file.sif",
    mounts=MOUNTS,
    settings=(Setting(name="PYTHONPATH", value="/runs/bundle"),),
    workdir="/runs/r1",
)
CASES = {
    "servers_on_two_nodes": step("writer-0", "gpu[07-08]"),
    "client_without_gpus": step("client", "gpu07", gpus=0),
    "facts_on_whole_nodes_without_gres": step("facts", "gpu[07-08],GPU-a1", gpus=None),
    "pyxis": step("writer-0", "gpu[07-08]", container=PYXIS),
    "apptainer": step("writer-0", "gpu07", container=APPTAINER),
}


@pytest.mark.parametrize("name", CASES)
def test_argv(name: str, golden: Golden) -> None:
    golden(GOLDEN / f"{name}.txt", "\n".join((*serve_srun(CASES[name]).argv, "")))


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", CASES)
def test_every_release_is_told_all_that_it_would_else_inherit(release: str, name: str) -> None:
    argv = serve_srun(CASES[name], version(release)).argv
    options = {word.partition("=")[0] for word in argv[: argv.index(COMMAND[0])]}
    always = "--overlap --exact --mem --cpus-per-task --export --kill-on-bad-exit --mpi --wait --nodelist --input"
    assert options >= set(always.split())
    assert "--exclusive" not in options
    assert argv[-len(COMMAND) :] == COMMAND


def test_a_release_that_may_ignore_gres_none_is_told_a_number() -> None:
    client = CASES["client_without_gpus"]
    assert "--gres=gpu:0" in serve_srun(client, version("23.02.4")).argv
    assert all("--gres=none" in serve_srun(client, version(release)).argv for release in ("22.05.8", "23.02.5"))


def test_all_cpus_are_given_when_no_number_is() -> None:
    argv = serve_srun(
        StepRequest(name=StepName("facts"), nodes=nodes("c1"), command=("true",), host_list_file="/h", gpus_per_node=0)
    ).argv
    assert not {"--exact", "--cpus-per-task"} & {word.partition("=")[0] for word in argv}


def test_extra_arguments_and_output_patterns() -> None:
    argv = serve_srun(
        StepRequest(
            name=StepName("a"),
            nodes=nodes("c1"),
            command=("true",),
            host_list_file="/h",
            gpus_per_node=0,
            output="/logs/50%.txt",
            extra_args=("--network=single_node_vni",),
            srun="/opt/slurm/bin/srun",
        )
    ).argv
    assert argv[0] == "/opt/slurm/bin/srun"
    assert argv[-3:] == ("--output=/logs/50%%.txt", "--network=single_node_vni", "true")


@pytest.mark.parametrize("names", ["gpu-{n:05d}", "rack{n}-node{n}-ib", "x{n}-gpu-node-with-a-long-name-in-bay-{n}b"])
def test_no_word_is_too_long_for_linux_on_10_000_nodes(names: str) -> None:
    many = tuple(NodeName(names.format(n=n)) for n in range(10_000))
    command = serve_srun(
        StepRequest(
            name=StepName("facts"), nodes=many, command=COMMAND, host_list_file="/runs/r1/hosts", gpus_per_node=8
        )
    )
    assert max(len(word.encode()) for word in command.argv) <= LONGEST_WORD
    if command.host_list is None:
        (listed,) = (word for word in command.argv if word.startswith("--nodelist="))
        assert set(nodes(listed.removeprefix("--nodelist="))) == set(many)
    else:
        assert "--nodelist=/runs/r1/hosts" in command.argv
        assert command.host_list.text.split() == list(many)


def test_the_three_spellings_use_both_ways() -> None:
    long = tuple(NodeName(f"x{n}-gpu-node-with-a-long-name-in-bay-{n}b") for n in range(10_000))
    short = nodes("gpu-[00001-10000]")
    assert serve_srun(step("a", "c1")).host_list is None
    request = StepRequest(name=StepName("a"), nodes=short, command=("true",), host_list_file="/h", gpus_per_node=0)
    assert "--nodelist=gpu-[00001-10000]" in serve_srun(request).argv
    request = StepRequest(name=StepName("a"), nodes=long, command=("true",), host_list_file="/h", gpus_per_node=0)
    assert serve_srun(request).host_list is not None


@pytest.mark.parametrize(
    ("container", "path"),
    [
        (Pyxis(image=IMAGE, mounts=(Mount(source="/data/a:b", target="/d"),)), "mounts[0].source"),
        (Pyxis(image=IMAGE, mounts=(Mount(source="/d", target="/x,y"),)), "mounts[0].target"),
        (Pyxis(image=IMAGE, mounts=(Mount(source="/x,y", target="/d"),)), "mounts[0].source"),
        (Pyxis(image=IMAGE, mounts=(Mount(source="/data/a b", target="/d"),)), "mounts[0].source"),
        (Pyxis(image="/images/a b.sqsh"), "image"),
        (Pyxis(image=IMAGE, environment=("A", "B,C")), "environment[1]"),
        (Pyxis(image=IMAGE, name="a:exec"), "name"),
        (Pyxis(image=IMAGE, workdir="/a\nb"), "workdir"),
        (Apptainer(image="/i.sif", mounts=(Mount(source="/data/a:b", target="/d"),)), "mounts[0].source"),
        (Apptainer(image="/i.sif", settings=(Setting(name="A", value="1,B=2"),)), "settings[0].value"),
        (Apptainer(image=""), "image"),
    ],
)
def test_what_a_container_runtime_cannot_say_is_refused(container: Container, path: str) -> None:
    (problem,) = container_problems(container, At(source="profile.yaml"))
    assert problem.at.path == path


def test_what_can_be_said_is_not_refused() -> None:
    blank = Apptainer(image="/i.sif", mounts=(Mount(source="/data/a b", target="/d"),))
    assert not [problem for said in (PYXIS, APPTAINER, blank, None) for problem in container_problems(said, AT)]


CHARACTERS = st.text(alphabet="ab:, /\t\n=", min_size=1, max_size=8)


@given(st.lists(st.tuples(CHARACTERS, CHARACTERS), min_size=1, max_size=4))
def test_mounts_that_pass_are_read_back_as_they_were(pairs: list[tuple[str, str]]) -> None:
    container = Pyxis(image=IMAGE, mounts=tuple(Mount(source=source, target=target) for source, target in pairs))
    if list(container_problems(container, AT)):
        return
    (word,) = (w for w in serve_srun(step("a", "c1", container=container)).argv if w.startswith("--container-mounts="))
    assert [tuple(mount.split(":")) for mount in word.partition("=")[2].split(",")] == pairs
