"""Nodes that cannot do what is planned: said of all of them at once, before anything is started."""

from pathlib import Path

import pytest

from tests.local.conftest import MakeRun
from tests.local.local_run import REPOSITORY

pytestmark = pytest.mark.slow

FEW_FILES = """
import os, resource
if os.environ.get("SLURMD_NODENAME") in {nodes!r}:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
"""


@pytest.mark.parametrize("bad", [["sim02"], ["sim01", "sim02"]])
def test_too_few_open_files_on_some_nodes(make_run: MakeRun, tmp_path: Path, bad: list[str]) -> None:
    run = make_run({"resources": {"nodes": 2}})
    folder = tmp_path / "few-files"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FEW_FILES.format(nodes=bad))
    controller = run.start(environ={"PYTHONPATH": f"{REPOSITORY}:{folder}"})
    assert controller.code() == 78, controller.log.read_text()
    record = run.record(1)
    assert record["state"] == "FAILED"
    assert [problem["source"] for problem in record["cause"]["problems"]] == [f"node {name}" for name in bad]
    assert run.story(1).count("the hard limit of open files (ulimit -Hn) is 1024 files, 4096 files are needed") == len(
        bad
    )
    assert "nothing was started" in run.story(1)
    assert not (run.attempt(1) / "events.jsonl").exists()
    assert not list((run.attempt(1) / "tasks").glob("*"))
    assert not run.processes()
