"""Facts per image: who is asked what, how answers come together, and why a node is silent."""

from core.outcome import problems_of
from core.plan.bind import bind
from core.plan.facts import NodeFacts
from core.plan.judge import Rehearsal
from core.plan.model import RunPlan
from core.plan.rounds import FactsRound, facts_rounds, merge_facts, unanswered
from core.plan.silence import why_silent
from core.problem import FactsMissing, PathUnusable, Problem, VersionUnfit
from core.report import as_text
from core.units import Alias, NodeName
from tests.core.plan_cases import ATTEMPT, planned
from tests.nodes import node

HOSTS = tuple(map(NodeName, ("n01", "n02", "n03")))
SITE = {"container": "pyxis", "container_mounts": [{"source": "/models", "target": "/models"}]}
MISSING = [{"path": "/models/new", "kind": "directory", "state": "missing"}]


def of(image: str, **different: object) -> dict[str, object]:
    """A deployment in an image, on whole nodes."""
    server = {"image": {"path": f"/images/{image}.sqsh"}}
    return {"model": f"/models/{image}", "server": server, "topology": {"tensor_parallel": 8}, **different}


def on_half(image: str, **different: object) -> dict[str, object]:
    """One on half of a shared node."""
    half = {"shared_node": "pair", "gpus_per_node": 4}
    return of(image, resources=half, topology={"tensor_parallel": 4}, **different)


def apart() -> RunPlan:
    """The old image on the first node, the new one on two others."""
    return planned([of("old"), of("new", resources={"nodes": 2})], site=SITE).unwrap()


def together() -> RunPlan:
    """Both images on one node."""
    return planned([on_half("old"), on_half("new")], site=SITE).unwrap()


def rounds_of(plan: RunPlan) -> tuple[FactsRound, ...]:
    return facts_rounds(plan, None, "/facts")


def test_every_image_is_asked_on_its_nodes_for_what_its_servers_need() -> None:
    old, new = rounds_of(apart())
    assert (old.image, old.nodes(HOSTS), old.aliases) == ("/images/old.sqsh", ("n01",), ("m0",))
    assert (new.image, new.nodes(HOSTS), new.aliases) == ("/images/new.sqsh", ("n02", "n03"), ("m1",))
    assert [path.path for path in old.request.paths] == ["/models/old"]
    assert [path.path for path in new.request.paths] == ["/models/new"]
    assert (old.request.output_dir, new.request.output_dir) == ("/facts", "/facts/image-2")


def test_deployments_of_one_image_are_asked_together() -> None:
    (asked,) = rounds_of(planned([of("same"), of("same")], site=SITE).unwrap())
    assert (asked.nodes(HOSTS), asked.aliases) == (("n01", "n02"), ("m0", "m1"))


def test_natively_and_in_a_rehearsal_one_round_asks_all() -> None:
    native = planned([of("old", server={}), of("new", server={})], site={"container": "none"}).unwrap()
    (asked,) = rounds_of(native)
    assert (asked.image, asked.slots, asked.aliases) == (None, (0, 1), ("m0", "m1"))
    assert [path.path for path in asked.request.paths] == ["/models/old", "/models/new"]
    (rehearsed,) = facts_rounds(apart(), Rehearsal(executable=("x",)), "/facts")
    assert rehearsed.slots == (0, 1, 2)


def test_answers_of_all_rounds_become_one_report_per_node() -> None:
    first = node("n01", 1, vllm_version="0.10.2", shm_mib=9000, taken_ports=[22])
    second = node("n01", 1, vllm_version="0.28.0", shm_mib=64, taken_ports=[80], paths=MISSING)
    (merged,) = merge_facts(rounds_of(together()), ((first,), (second,)), HOSTS)
    assert [merged.vllm(Alias(alias)) for alias in ("m0", "m1")] == ["0.10.2", "0.28.0"]
    assert (merged.shm_mib, merged.taken_ports) == (64, (22, 80))
    assert [path.state for path in merged.paths] == ["missing"]


def test_a_node_that_answers_once_is_taken_as_it_is() -> None:
    reports = [node(name, index) for index, name in enumerate(HOSTS, 1)]
    assert merge_facts(rounds_of(apart()), (reports[:1], reports[:0:-1]), HOSTS) == tuple(reports)


def problems(plan: RunPlan, *answers: tuple[NodeFacts, ...]) -> tuple[Problem, ...]:
    rounds = rounds_of(plan)
    silent = tuple(why_silent(name, asked, "log", ()) for asked, name in unanswered(rounds, answers, HOSTS))
    hosts = HOSTS[: plan.request.nodes]
    return problems_of(bind(plan, hosts, merge_facts(rounds, answers, hosts), ATTEMPT, "/b", silent=silent))


def versions(*texts: str) -> tuple[NodeFacts, ...]:
    return tuple(
        node(name, index, vllm_version=text) for index, (name, text) in enumerate(zip(HOSTS, texts, strict=False), 1)
    )


def test_images_may_have_different_versions_but_one_image_has_one() -> None:
    old, *new = versions("0.10.2", "0.28.0", "0.28.0")
    assert problems(apart(), (old,), tuple(new)) == ()
    old, *new = versions("0.10.2", "0.28.0", "0.29.0")
    (unfit,) = problems(apart(), (old,), tuple(new))
    assert isinstance(unfit, VersionUnfit)
    assert (unfit.at.source, unfit.expected) == ("node n03", "vLLM 0.28.0, as planned")
    assert problems(together(), versions("0.10.2"), versions("0.28.0")) == ()


def test_a_node_that_is_silent_in_one_round_is_told_with_the_image() -> None:
    (missing,) = problems(together(), versions("0.10.2"), ())
    assert isinstance(missing, FactsMissing)
    words = "node n01: the node did not report: no facts file in the container of /images/new.sqsh"
    assert as_text(missing).startswith(words)


def test_a_path_that_is_not_in_an_image_is_told() -> None:
    (found,) = problems(together(), versions("0.28.0"), (node("n01", 1, paths=MISSING),))
    assert isinstance(found, PathUnusable)
    assert (found.at.source, found.path, found.state) == ("node n01", "/models/new", "missing")


def silence_of(name: str, *lines: str) -> FactsMissing:
    return why_silent(NodeName(name), rounds_of(apart())[0], "logs/facts.1.srun.log", lines)


def test_why_a_node_is_silent_is_looked_for_in_its_own_lines() -> None:
    lines = (
        "slurmstepd-n01: error: execve(): apptainer: No such file or directory",
        "slurmstepd-n02: error: pyxis: couldn't start container",
        "srun: error: n02: task 1: Exited with exit code 1",
        "srun: error: n01: task 0: Exited with exit code 2",
    )
    first, second = silence_of("n01", *lines), silence_of("n02", *lines)
    assert first.reason.startswith("apptainer is not installed on the node (logs/facts.1.srun.log: slurmstepd-n01")
    assert "install Apptainer" in str(first.advice)
    assert second.reason.startswith("the container could not be started")


def test_words_that_nobody_knows_are_repeated() -> None:
    found = silence_of("n01", "something odd", "srun: error: n01: task 0: Exited with exit code 2")
    assert (found.reason, found.advice) == ("logs/facts.1.srun.log: something odd", None)
    assert (
        silence_of("n01", "slurmstepd-n02: error: odd").reason == "no facts file in the container of /images/old.sqsh"
    )
