"""A model of the hub on eight simulated nodes: one download, then servers that are told to stay offline."""

import os
import signal
import sys
from pathlib import Path

import pytest

from shell.authored.authoring import read_and_plan
from shell.submission.runs import create_run
from tests.local.conftest import MakeRun
from tests.local.local_run import REPOSITORY, LocalRun, until

pytestmark = pytest.mark.slow

HUB = REPOSITORY / "tests" / "shell" / "stand_in_hub"
SERVER = """\
#!{python}
import os, sys
if "--version" in sys.argv:
    print("0.28.0")
    sys.exit()
with open({log!r}, "a") as log:
    log.write(os.environ["SLURMD_NODENAME"] + " " + os.environ.get("HF_HUB_OFFLINE", "-") + "\\n")
os.execv(sys.executable, [sys.executable, "-m", "shell.simulate", *sys.argv[1:]])
"""


class Hub:
    """A run of one model of the hub, not rehearsed: a script stands in for vLLM, a module for the hub's tool."""

    def __init__(self, run: LocalRun, nodes: int) -> None:
        self.run, self.home = run, run.folder / "hf"
        self.servers, self.log = run.folder / "servers", run.folder / "downloads"
        program = run.folder / "vllm"
        program.write_text(SERVER.format(python=sys.executable, log=str(self.servers)))
        program.chmod(0o755)
        server = f'{{"executable": "{program}", "lead_boot_standoff": 0, "rank_launch_stagger": 0}}'
        deployment = f'{{"model_alias": "m", "model": "lab/m", "resources": {{"nodes": {nodes}}}, "server": {server}}}'
        before = (run.folder / "run.json").read_text()
        begin, end = before.index('"deployments": ') + len('"deployments": '), before.rindex("]")
        (run.folder / "run.json").write_text(f"{before[:begin]}[{deployment}{before[end:]}")
        catalog, workspace = run.folder / "profiles.json", run.folder / "workspace"
        planned = read_and_plan(str(run.folder / "run.json"), str(catalog), "here", str(workspace))
        _, run.paths = create_run(planned.unwrap(), None).unwrap()
        self.environ = {
            "PYTHONPATH": f"{HUB}:{REPOSITORY}",
            "HF_HOME": str(self.home),
            "STAND_IN_HUB_LOG": str(self.log),
        }

    def lines(self, path: Path) -> list[str]:
        return sorted(path.read_text().splitlines()) if path.exists() else []


def test_8_3_eight_nodes_one_download_and_all_servers_offline(make_run: MakeRun) -> None:
    hub = Hub(make_run(), 8)
    hub.run.open_gate()
    controller = hub.run.start(environ=hub.environ)
    assert controller.code() == 0, controller.log.read_text()
    assert len(hub.lines(hub.log)) == 1
    assert hub.lines(hub.log)[0].startswith("lab/m None sim01 ")
    assert hub.lines(hub.servers) == [f"sim{index:02d} 1" for index in range(1, 9)]
    assert "lab/m is fetched from the hub by node sim01; 7 other nodes of the same cache wait" in hub.run.story(1)
    hub.run.check_files()

    again = hub.run.start(environ=hub.environ)
    assert again.code() == 0, again.log.read_text()
    assert len(hub.lines(hub.log)) == 1, "what is in the cache is not fetched again"
    assert len(hub.lines(hub.servers)) == 16
    assert not hub.run.processes()


@pytest.mark.parametrize(
    ("failure", "words"), [("GatedRepoError", "its owner must let you in first"), ("die", "it ended without the model")]
)
def test_a_model_that_cannot_be_fetched_ends_the_attempt_before_anything_starts(
    make_run: MakeRun, failure: str, words: str
) -> None:
    hub = Hub(make_run(), 2)
    controller = hub.run.start(environ=hub.environ | {"STAND_IN_HUB_FAILS": failure})
    assert controller.code() == os.EX_UNAVAILABLE
    assert words in controller.log.read_text()
    assert "Traceback" not in controller.log.read_text()
    record = hub.run.record(1)
    assert (record["state"], record["cause"]["problems"][0]["code"]) == ("FAILED", "hub-model-missing")
    assert hub.lines(hub.servers) == []
    assert not (hub.run.attempt(1) / "events.jsonl").exists()
    assert not hub.run.processes()


def test_a_download_is_ended_in_order_when_the_attempt_is_stopped(make_run: MakeRun) -> None:
    hub = Hub(make_run(), 2)
    controller = hub.run.start(environ=hub.environ | hub.run.hold("shell.fetch_model") | {"HF_HOME": str(hub.home)})
    controller.says("is fetched from the hub")
    until(lambda: any("shell.fetch_model" in command for command in hub.run.processes()), "the download to begin")
    controller.send(signal.SIGTERM)
    assert controller.code() == 128 + signal.SIGTERM, controller.log.read_text()
    assert hub.run.record(1)["state"] == "INTERRUPTED"
    assert hub.lines(hub.servers) == []
    hub.run.await_nothing_left()
