"""Rules of the run file that cross fields. The arithmetic of placement is the planner's (`core.plan.topology`).

A rule is judged as soon as the fields that it reads are sound, so that problems of form and of rules come together.
"""

import re
from collections.abc import Iterator

from core.config.client_rules import client_problems
from core.config.durations import duration_ms, time_limit_s
from core.config.place import Place
from core.config.run_config import Deployment, OnTimeLimit, Resources, RunConfig
from core.config.server_rules import server_problems
from core.problem import Malformed, NotUnique, Problem, TooManyShards, WrongCombination

_HUB_ID = re.compile(r"(?![.~-])[^\s]+")


def run_problems(config: RunConfig, place: Place) -> Iterator[Problem]:
    """Everything that the rules object to."""
    yield from client_problems(config, place)
    yield from _unique_aliases(config, place)
    for index, deployment in enumerate(config.deployments):
        yield from _deployment(deployment, place.item("deployments", index))
    yield from _one_shared_node(config, place)
    yield from _budget_alone(config, place)
    yield from _array(config, place)
    yield from _partitions(config, place)
    yield from _margin(config.on_time_limit, config.submission.time_limit, place)


def _unique_aliases(config: RunConfig, place: Place) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, deployment in enumerate(config.deployments):
        spot = place.item("deployments", index)
        if spot.sound("model_alias"):
            earlier = first.setdefault(deployment.model_alias, index)
            if earlier != index:
                first_path = place.item("deployments", earlier).path
                alias = deployment.model_alias
                yield NotUnique(at=spot.at("model_alias"), what="model alias", value=alias, first_path=first_path)


def _deployment(deployment: Deployment, place: Place) -> Iterator[Problem]:
    yield from server_problems(deployment.server, place.into("server"))
    if place.sound("model") and not deployment.model.startswith("/") and not _HUB_ID.fullmatch(deployment.model):
        expected = "an absolute path, or the id of a model on the hub such as org/name"
        yield Malformed(at=place.at("model"), found=repr(deployment.model[:60]), expected=expected)
    if place.sound("served_model_name") and (deployment.served_model_name or "").startswith("-"):
        found = repr((deployment.served_model_name or "")[:60])
        yield Malformed(at=place.at("served_model_name"), found=found, expected="a name that does not begin with '-'")
    yield from _share(deployment.resources, place.into("resources"))


def _share(resources: Resources, place: Place) -> Iterator[Problem]:
    """A share of a node is a node's name and a number of GPUs, on one node."""
    if not place.sound():
        return
    if (resources.shared_node is None) != (resources.gpus_per_node is None):
        given, missing = ("shared_node", "gpus_per_node")
        if resources.shared_node is None:
            given, missing = missing, given
        expected = "give both shared_node and gpus_per_node to share a node, or neither"
        found = f"{given} is given without {missing}"
        yield WrongCombination(at=place.at(given), found=found, expected=expected)
    if resources.gpu_start_index is not None and resources.shared_node is None:
        expected = "leave gpu_start_index out, or share a node with shared_node and gpus_per_node"
        found = "gpu_start_index is given without shared_node"
        yield WrongCombination(at=place.at("gpu_start_index"), found=found, expected=expected)
    if resources.shared_node is not None and resources.nodes != 1:
        found = f"{resources.nodes} nodes are asked for together with shared_node, which is one"
        yield WrongCombination(at=place.at("nodes"), found=found, expected="leave nodes out, or leave shared_node out")


def _one_shared_node(config: RunConfig, place: Place) -> Iterator[Problem]:
    """One group covers all deployments, at least two, which agree on what is set once per node."""
    groups = [deployment.resources.shared_node for deployment in config.deployments]
    whole = all(place.item("deployments", i).sound("resources") for i in range(len(groups)))
    first = next((index for index, group in enumerate(groups) if group is not None), None)
    if first is None or not whole or not place.sound("gpu_budget"):
        return
    if len(groups) == 1:
        spot = place.item("deployments", 0).into("resources")
        found, expected = "shared_node is given, and there is one deployment only", "leave shared_node out"
        yield WrongCombination(at=spot.at("shared_node"), found=found, expected=expected)
    for index, group in enumerate(groups):
        spot = place.item("deployments", index)
        if group != groups[first]:
            name = "has no shared_node" if group is None else f"is on the shared node {group!r}"
            found = f"the deployment {name}, another one is on {groups[first]!r}"
            expected = "put all deployments on the same shared_node, or none"
            yield WrongCombination(at=spot.at("resources"), found=found, expected=expected)
        else:
            yield from _agrees(config, first, index, spot.into("server"))


def _agrees(config: RunConfig, first: int, index: int, place: Place) -> Iterator[Problem]:
    model, other = config.deployments[first].server, config.deployments[index].server
    for name, differs in (
        ("environment", set(model.environment) != set(other.environment)),
        ("queue_backpressure", model.queue_backpressure != other.queue_backpressure),
    ):
        if differs and place.sound(name):
            found = f"server.{name} differs from that of deployments[{first}] on the same shared node"
            expected = f"write the same {name} for all deployments of a shared node"
            yield WrongCombination(at=place.at(name), found=found, expected=expected)


def _budget_alone(config: RunConfig, place: Place) -> Iterator[Problem]:
    """Who gives GPUs lets the planner choose the nodes."""
    if config.gpu_budget is None:
        return
    for index in range(len(config.deployments)):
        spot = place.item("deployments", index)
        if spot.given("resources"):
            found = "resources are given together with gpu_budget"
            expected = "leave resources out and let gpu_budget decide, or leave gpu_budget out"
            yield WrongCombination(at=spot.at("resources"), found=found, expected=expected)


def _array(config: RunConfig, place: Place) -> Iterator[Problem]:
    tasks, invocation = config.array_tasks, config.invocation
    if place.sound("array_tasks", "invocation.num_records") and invocation is not None:
        if tasks.count > invocation.num_records:
            at = place.at("array_tasks.count")
            yield TooManyShards(at=at, records=invocation.num_records, count=tasks.count)
    elif invocation is None and place.sound("array_tasks", "invocation") and tasks.count > 1 and config.client.command:
        found = f"{tasks.count} array tasks, and nothing says how many records they share"
        expected = "give invocation.num_records, or leave array_tasks out"
        yield WrongCombination(at=place.at("array_tasks.count"), found=found, expected=expected)
    if place.sound("array_tasks") and tasks.max_concurrent is not None and tasks.max_concurrent > tasks.count:
        found = f"max_concurrent is {tasks.max_concurrent}, more than the {tasks.count} array tasks that there are"
        expected = f"use at most {tasks.count}, or leave max_concurrent out"
        yield WrongCombination(at=place.at("array_tasks.max_concurrent"), found=found, expected=expected)


def _partitions(config: RunConfig, place: Place) -> Iterator[Problem]:
    if place.sound("submission.partition"):
        yield from repeated_partition(config.submission.partition, place.into("submission.partition"))


def repeated_partition(partition: str | tuple[str, ...] | None, place: Place) -> Iterator[Problem]:
    """Each partition once."""
    names = partition.split(",") if isinstance(partition, str) else list(partition or ())
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield NotUnique(at=place.at(), what="partition", value=name, first_path=place.path)


def _margin(on_time_limit: OnTimeLimit, time_limit: str, place: Place) -> Iterator[Problem]:
    """The margin is a part of the walltime. A limit of zero is Slurm's word for none."""
    limit = time_limit_s(time_limit) if place.sound("submission.time_limit") else 0
    if not limit or not place.given("on_time_limit") or not place.sound("on_time_limit"):
        return
    if duration_ms(on_time_limit.margin) >= limit * 1000:
        found = f"the margin of {on_time_limit.margin} is not shorter than the time limit of {time_limit}"
        expected = "lower on_time_limit.margin or raise submission.time_limit"
        yield WrongCombination(at=place.at("on_time_limit.margin"), found=found, expected=expected)
