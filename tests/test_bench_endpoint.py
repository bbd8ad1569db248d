"""The benchmark of the endpoint runs, in a tiny size and without rivals, and its figures are of what they say."""

import argparse
import math
import sys
from pathlib import Path

import pytest

from bench import endpoint
from bench.endpoint_contenders import Contender, add_contender_options, contenders, started

WRK = """
  Latency Distribution
     50%    2.24ms
  21505 requests in 2.02s, 7.71MB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 4
Requests/sec:  10640.30
"""


def test_what_wrk_says_is_understood() -> None:
    assert endpoint.read_wrk(WRK) == {"requests": 21505, "seconds": 2.02, "p50_ms": 2.24, "bad": 7}
    micro = WRK.replace("2.24ms", "740.00us")
    assert endpoint.read_wrk(micro)["p50_ms"] == pytest.approx(0.74)


def test_the_table_compares_with_ours() -> None:
    rows = {"bare relay": {"CPU us": 20.0, "p50 ms": math.nan}, "ours": {"CPU us": 25.0, "p50 ms": 1.0}}
    assert endpoint.tables({"small": rows}).splitlines()[-2:] == [
        "| bare relay | 20 | none | 0.80 |",
        "| ours | 25 | 1 | 1.00 |",
    ]


def test_rivals_that_are_not_there_are_left_out() -> None:
    parser = argparse.ArgumentParser()
    add_contender_options(parser)
    options = parser.parse_args(["--peer", "none", "--nginx", "", "--haproxy", "", "--vllm-router", ""])
    assert [one.name for one in contenders(options)] == ["bare relay", "ours", "ours, with access log"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bare relay", "ours", "ours, with access log"])
def test_every_case_is_measured_without_a_loss(name: str, tmp_path: Path) -> None:
    one, site = Contender(name, sys.executable), endpoint.Site(None, 0, 0.3)
    table = endpoint.measure(endpoint.cases(quick=True), [one], site, rounds=1, core=0)
    small, streams, held, bodies = (rows[name] for rows in table.values())
    assert small["bad"] == streams["lost"] == bodies["bad"] == 0
    assert held["begun"] == 20
    assert min(small["CPU us"], streams["CPU us/chunk"], bodies["CPU us/MiB"]) > 0
    assert set(table) == {case.title for case in endpoint.cases(quick=True)}


@pytest.mark.slow
def test_an_open_stream_takes_little_memory(tmp_path: Path) -> None:
    site = endpoint.Site(None, 0, 1)
    with (
        endpoint.servers(2, 0) as ports,
        started(Contender("ours", sys.executable), tmp_path, ports, 0) as running,
    ):
        endpoint.held(site, running, 100)
        found = endpoint.held(site, running, 1_000)
    assert found["begun"] == 1_000
    assert found["KiB each"] < 40


@pytest.mark.slow
def test_large_bodies_pass_through_little_memory(tmp_path: Path) -> None:
    site = endpoint.Site(None, 0, 1)
    with (
        endpoint.servers(2, 0) as ports,
        started(Contender("ours", sys.executable), tmp_path, ports, 0) as running,
    ):
        found = endpoint.bodies(site, running, 8, 16, 8 * endpoint.MIB)
    assert found["bad"] == 0
    assert found["peak MiB"] < 40
