"""Asking all nodes in all images at once: what comes, what does not, and an order to stop in between."""

import signal
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest

from core.layout import AttemptPaths
from core.plan.bound import BoundPlan
from core.plan.facts import FactsRequest, NodeFacts
from core.plan.rounds import facts_rounds
from core.plan.steps import Step
from core.supervise.effects import Signal
from core.units import NodeName, StepName
from shell.attempt import gathering
from shell.attempt.fetching import News
from shell.attempt.gathering import Gathered, gather_facts
from tests.core.plan_cases import planned
from tests.nodes import node

HOSTS = (NodeName("n01"), NodeName("n02"))


class Nodes:
    """A launcher whose nodes answer at once, but those in `silent`, which answer with a log."""

    def __init__(self, paths: AttemptPaths, news: News, silent: Sequence[str] = (), hangs: bool = False) -> None:
        self.paths, self.news, self.silent, self.hangs = paths, news, silent, hangs
        self.asked: list[tuple[tuple[NodeName, ...], str | None]] = []
        self.stopped = 0

    def facts(self, request_path: str, nodes: Sequence[NodeName], image: str | None) -> None:
        self.asked.append((tuple(nodes), image))
        request = msgspec.json.decode(Path(request_path).read_bytes(), type=FactsRequest)
        folder = Path(request.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        for name in nodes:
            if name in self.silent:
                log = Path(self.paths.logs, f"facts.{len(self.asked)}.srun.log")
                log.write_text(f"slurmstepd-{name}: error: execve(): apptainer: No such file or directory\n")
            else:
                (folder / f"{name}.json").write_bytes(msgspec.json.encode(node(name, vllm_version=image)))
        if not self.hangs:
            self.news.put(None)

    def stop_facts(self) -> None:
        self.stopped += 1
        for _ in self.asked:
            self.news.put(None)

    def serve(self, step: Step, launch: int, plan: BoundPlan, plan_path: str) -> None:
        raise AssertionError

    def signal(self, step: StepName, launch: int, signal: Signal) -> None:
        raise AssertionError


def gather(
    folder: Path, silent: Sequence[str] = (), hangs: bool = False, early: int | None = None
) -> tuple[Nodes, Gathered | int]:
    paths = AttemptPaths(root=str(folder))
    Path(paths.logs).mkdir()
    images = [{"server": {"image": {"path": f"/images/{name}"}}, "topology": {"tensor_parallel": 8}} for name in "ab"]
    plan = planned(images, site={"container": "apptainer"}).unwrap()
    news: News = SimpleQueue()
    if early is not None:
        news.put(early)
    nodes = Nodes(paths, news, silent, hangs)
    return nodes, gather_facts(facts_rounds(plan, None, paths.facts), HOSTS, paths, nodes, news, lambda _: None)


def facts_of(gathered: Gathered | int) -> tuple[NodeFacts, ...]:
    assert isinstance(gathered, Gathered)
    return gathered.facts


def test_every_round_is_asked_in_its_image_and_all_answers_come(tmp_path: Path) -> None:
    nodes, gathered = gather(tmp_path)
    assert nodes.asked == [(("n01",), "/images/a"), (("n02",), "/images/b")]
    assert [(one.node, one.vllm_version) for one in facts_of(gathered)] == [("n01", "/images/a"), ("n02", "/images/b")]
    assert nodes.stopped == 0


def test_what_a_silent_node_printed_is_told(tmp_path: Path) -> None:
    _, gathered = gather(tmp_path, silent=["n02"])
    assert [one.node for one in facts_of(gathered)] == ["n01"]
    assert isinstance(gathered, Gathered)
    (missing,) = gathered.silent
    assert missing.at.source == "node n02"
    assert missing.reason.startswith("apptainer is not installed on the node (logs/facts.2.srun.log: ")


def test_a_signal_ends_all_rounds_and_is_given_back(tmp_path: Path) -> None:
    nodes, gathered = gather(tmp_path, hangs=True, early=signal.SIGTERM)
    assert (gathered, nodes.stopped) == (signal.SIGTERM, 1)


def test_what_is_there_must_do_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "IN_AN_IMAGE_WITHIN_S", 0.0)
    nodes, gathered = gather(tmp_path, hangs=True)
    assert nodes.stopped == 1
    assert len(facts_of(gathered)) == 2
