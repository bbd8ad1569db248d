"""Real Slurm clusters, started once per session when the first test asks, and stopped always."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.slurm.available import must_run, why_not
from tests.slurm.cluster import Cluster, ClusterError
from tests.slurm.logs import last_lines, log_sizes
from tests.slurm.options import LabNode, LabOptions
from tests.slurm.recovery import recover
from tests.slurm.running import running_cluster

FOUR_NODES = LabOptions(nodes=tuple(LabNode(name=f"c{number}") for number in range(1, 5)))
ODD_NAMES = LabOptions(
    nodes=(
        LabNode(name="GPU-A1", gpus=4),
        LabNode(name="gpu-b-02", gpus=8, hostname="gpu-b-02.cluster.test"),
        LabNode(name="rack1-n007", gpus=2),
        LabNode(name="x10y3-n04", gpus=0),
    ),
)
_HERE = Path(__file__).parent
_LOGS = pytest.StashKey[tuple[Cluster, dict[str, int]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here are `slurm`, before -m is looked at."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.slurm)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Nobody shall take a run without Slurm for one with it."""
    untried = [one for one in terminalreporter.stats.get("skipped", []) if "no real Slurm" in str(one.longrepr)]
    if untried:
        terminalreporter.write_sep("=", "REAL SLURM WAS NOT TESTED", red=True, bold=True)
        terminalreporter.write_line(f"{len(untried)} tests were skipped: {why_not()}", red=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what Slurm's daemons logged meanwhile."""
    report = yield
    if report.failed and _LOGS in item.stash:
        cluster, sizes = item.stash[_LOGS]
        report.sections.append(("logs of the cluster", last_lines(cluster.folder, sizes)))
    return report


@pytest.fixture(scope="session")
def able() -> None:
    """That this machine can carry a cluster: skips where not, and fails in CI."""
    reason = why_not()
    if reason is not None and must_run(os.environ):
        pytest.fail(f"no real Slurm: {reason}", pytrace=False)
    if reason is not None:
        pytest.skip(f"no real Slurm: {reason}")


@pytest.fixture(scope="session")
def four_nodes(able: None) -> Iterator[Cluster]:
    with running_cluster(FOUR_NODES) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def odd_names(able: None) -> Iterator[Cluster]:
    with running_cluster(ODD_NAMES) as cluster:
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest, four_nodes: Cluster) -> Iterator[Cluster]:
    """c1 to c4 with 8 GPUs each. After the test every job is cancelled, and nothing may be left on any node."""
    yield from _cleared(four_nodes, request.node)


@pytest.fixture
def odd_cluster(request: pytest.FixtureRequest, odd_names: Cluster) -> Iterator[Cluster]:
    """Nodes with dashes, capitals, several groups of digits, full host names and unequal GPUs."""
    yield from _cleared(odd_names, request.node)


def _cleared(cluster: Cluster, test: pytest.Item) -> Iterator[Cluster]:
    test.stash[_LOGS] = (cluster, log_sizes(cluster.folder))
    yield cluster
    try:
        cluster.cancel_all()
    except ClusterError:
        recover(cluster)
        raise
