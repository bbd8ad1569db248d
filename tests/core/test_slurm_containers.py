"""Containers of steps: what wins over an image, how programs are found in it, and whether Pyxis is there."""

from pathlib import Path

from core.layout import AttemptPaths
from core.plan.contained import container_of, pyxis_problems
from core.plan.job_steps import StepSite, facts_step
from core.plan.model import RunPlan
from core.problem import PyxisMissing
from core.slurm.containers import Apptainer, Mount, Pyxis, contained_command, container_options, outer_environment
from core.slurm.plugins import offers_pyxis
from core.slurm.srun import serve_srun
from core.units import NodeName
from tests.core.plan_cases import planned

FACTS = Path(__file__).parents[1] / "facts" / "slurm"
SECRET = {"environment": {"HF_TOKEN": {"type": "secret", "environment": "LAB_TOKEN"}}}
OUTER = {"PATH": "/bin", "PYTHONPATH": "/run/b.zip:/home/me/lib", "LAB_TOKEN": "s", "DD_SLURM_SERVER_TOKEN": "t"}


def plan(runtime: str, *mounts: dict[str, object]) -> RunPlan:
    server = {"image": {"path": "/images/v.img"}, **SECRET}
    return planned([{"server": server}], site={"container": runtime, "container_mounts": list(mounts)}).unwrap()


def container(runtime: str, *mounts: dict[str, object]) -> Pyxis | Apptainer:
    found = container_of(plan(runtime, *mounts), "/images/v.img", "/scratch/runs/r1", "/run/b.zip", "n")
    assert found is not None
    return found


def test_a_program_is_looked_for_in_the_image() -> None:
    """`srun` would hand on the path that it finds on its own host."""
    assert contained_command(container("pyxis"), ("python3", "-m", "x")) == ("/usr/bin/env", "python3", "-m", "x")
    assert contained_command(container("pyxis"), ("/opt/python3",)) == ("/opt/python3",)
    assert contained_command(container("apptainer"), ("python3",))[-1] == "python3"
    assert contained_command(None, ("python3",)) == ("python3",)


def test_the_bundle_and_secrets_win_over_the_image_and_no_value_stands_in_argv() -> None:
    pyxis, apptainer = container("pyxis"), container("apptainer")
    assert "--container-env=PYTHONPATH,DD_SLURM_SERVER_TOKEN,LAB_TOKEN" in container_options(pyxis)
    assert outer_environment(pyxis, OUTER) == OUTER | {"PYTHONPATH": "/run/b.zip"}
    assert "--env=PYTHONPATH=/run/b.zip" in contained_command(apptainer, ("x",))
    wins = {"APPTAINERENV_DD_SLURM_SERVER_TOKEN": "t", "APPTAINERENV_LAB_TOKEN": "s"}
    assert outer_environment(apptainer, OUTER) == OUTER | wins
    assert outer_environment(None, OUTER) == OUTER


def test_the_folder_of_the_run_is_mounted_unless_it_is_seen_for_writing_already() -> None:
    own = Mount(source="/scratch/runs/r1", target="/scratch/runs/r1")
    scratch: dict[str, object] = {"source": "/scratch", "target": "/scratch"}
    assert container("pyxis").mounts == (own,)
    assert own not in container("pyxis", scratch).mounts
    assert own in container("pyxis", {**scratch, "read_only": True}).mounts
    assert own in container("pyxis", {"source": "/other", "target": "/scratch"}).mounts
    shadowed: dict[str, object] = {"source": "/scratch/runs", "target": "/scratch/runs", "read_only": True}
    assert own in container("pyxis", scratch, shadowed).mounts


def test_facts_are_asked_in_the_image_and_a_node_that_fails_does_not_end_the_others() -> None:
    site = StepSite(
        job_id="4711",
        plan=plan("pyxis"),
        bundle="/run/b.zip",
        python="/venv/bin/python",
        run_root="/scratch/runs/r1",
        attempt=AttemptPaths(root="/scratch/runs/r1/a"),
        gpus_per_node=8,
    )
    argv = serve_srun(facts_step(site, "/r.json", (NodeName("n01"), NodeName("n02")), "/images/v.img", 2)).argv
    assert {"--kill-on-bad-exit=0", "--container-image=/images/v.img", "--container-name=dd-slurm-4711-facts.2"} <= {
        *argv
    }
    native = serve_srun(facts_step(site, "/r.json", (NodeName("n01"),), None, 1)).argv
    assert not [word for word in native if "container" in word]
    assert "/venv/bin/python" in native


def test_pyxis_is_known_by_its_option_not_by_slurms_own_containers() -> None:
    without, with_it = ((FACTS / f"srun_help_{name}.txt").read_text() for name in ("22.05", "pyxis"))
    assert not offers_pyxis(without)
    assert "--container " in without
    assert offers_pyxis(with_it)
    assert [type(found) for found in pyxis_problems(plan("pyxis"), without)] == [PyxisMissing]
    assert not list(pyxis_problems(plan("pyxis"), with_it))
    assert not list(pyxis_problems(plan("apptainer"), without))
