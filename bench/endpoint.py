"""What stands between clients and servers, measured side by side: ``python -m bench.endpoint``.

Every contender gets the same load before the same servers, on a core of its own where there are two; servers and load
share the other one. CPU per request hardly depends on how busy the machine is; requests per second do. Contenders take
turns, and each figure is the median of `--rounds`.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.endpoint_contenders import (
    ROOT,
    TOKEN,
    Contender,
    Running,
    add_contender_options,
    contenders,
    free_ports,
    started,
)

Row = dict[str, float]
MIB = 1 << 20


class Site(NamedTuple):
    """Where load comes from, and how long."""

    wrk: str | None
    load_core: int
    seconds: float


def load(site: Site, running: Running, kind: str, *figures: object) -> Row:
    """One load of our own clients; what they found."""
    words = (kind, running.port, TOKEN, *figures)
    argv = (
        "taskset",
        "-c",
        str(site.load_core),
        sys.executable,
        str(ROOT / "bench/endpoint_load.py"),
        *map(str, words),
    )
    found: Row = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return found


def small(site: Site, running: Running, connections: int) -> Row:
    """Small requests in a closed loop."""
    before = running.cpu_s()
    if site.wrk is None:
        found = load(site, running, "small", connections, site.seconds)
    else:
        found = _wrk(site.wrk, site, running, connections)
    spent = running.cpu_s() - before
    rate = found["requests"] / found["seconds"]
    return {
        "requests/s": rate,
        "CPU us": 1e6 * spent / (found["requests"] or math.nan),
        "p50 ms": found["p50_ms"],
        "bad": found["bad"],
    }


def _wrk(wrk: str, site: Site, running: Running, connections: int) -> Row:
    url = f"http://127.0.0.1:{running.port}/v1/chat/completions"
    argv = (
        *(
            "taskset",
            "-c",
            str(site.load_core),
            wrk,
            "-t",
            "1",
            "-c",
            str(connections),
            "-d",
            f"{site.seconds:.0f}s",
        ),
        *("--latency", "-s", str(ROOT / "bench/endpoint.lua"), url, TOKEN),
    )
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return read_wrk(said)


def read_wrk(said: str) -> Row:
    """What wrk found."""
    total = re.search(r"(\d+) requests in ([\d.]+)(m?s)", said)
    middle = re.search(r"50%\s+([\d.]+)(us|ms|s)", said)
    if total is None or middle is None:
        raise ValueError(said)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    return {
        "requests": int(total[1]),
        "seconds": float(total[2]) * {"s": 1, "ms": 1e-3}[total[3]],
        "p50_ms": float(middle[1]) * {"us": 1e-3, "ms": 1, "s": 1e3}[middle[2]],
        "bad": (int(bad[1]) if bad else 0) + (sum(map(int, errors.groups())) if errors else 0),
    }


def streams(site: Site, running: Running, connections: int, count: int, gap_ms: int) -> Row:
    """Streams of chunks; the delay is from the server's write to the client's read."""
    before = running.cpu_s()
    found = load(site, running, "streams", connections, count, gap_ms)
    spent = running.cpu_s() - before
    lost = found["wanted"] - found["chunks"]
    late = {"p50 ms": found["p50_ms"], "p99 ms": found["p99_ms"]}
    return {"CPU us/chunk": 1e6 * spent / max(found["chunks"], 1), **late, "lost": lost}


def held(site: Site, running: Running, connections: int) -> Row:
    """Many streams that say next to nothing."""
    before = running.memory_kib()
    words = ("hold", running.port, TOKEN, connections)
    argv = (
        "taskset",
        "-c",
        str(site.load_core),
        sys.executable,
        str(ROOT / "bench/endpoint_load.py"),
        *map(str, words),
    )
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.readline())
        grown = running.memory_kib() - before
        process.communicate("\n")
    begun = {"begun": found["streams"], "429": found["refused"], "seconds": found["seconds"]}
    return {**begun, "KiB each": grown / max(found["streams"], 1), "/health ms": found["health_ms"] or float("nan")}


def bodies(site: Site, running: Running, connections: int, requests: int, size: int) -> Row:
    """Large requests."""
    running.forget_peak()
    before, memory = running.cpu_s(), running.memory_kib()
    found = load(site, running, "bodies", connections, requests, size)
    spent = running.cpu_s() - before
    mib = found["requests"] * size / MIB
    grown = (running.peak_kib() - memory) / 1024
    return {
        "CPU us/MiB": 1e6 * spent / (mib or math.nan),
        "MiB/s": mib / found["seconds"],
        "peak MiB": grown,
        "bad": found["bad"],
    }


class Case(NamedTuple):
    """One table."""

    title: str
    measure: Callable[[Site, Running], Row]
    rounds: int | None = None


def cases(quick: bool) -> tuple[Case, ...]:
    """What is measured; `quick` is for tests of the benchmark."""
    counts, chunks, open_streams, requests = (
        ((2,), (2, 5, 10), 20, 2) if quick else ((1, 32, 256), (200, 150, 20), 4000, 64)
    )
    return (
        *(Case(f"small, {n} connections", partial(small, connections=n)) for n in counts),
        Case(f"{chunks[0]} streams, a chunk every {chunks[2]} ms", lambda site, one: streams(site, one, *chunks)),
        Case(f"{open_streams} open streams", lambda site, one: held(site, one, open_streams), 1),
        Case("bodies of 8 MiB, 8 at a time", lambda site, one: bodies(site, one, 8, requests, 8 * MIB), 1),
    )


def measure(
    chosen: Sequence[Case], those: Sequence[Contender], site: Site, rounds: int, core: int
) -> dict[str, dict[str, Row]]:
    """Per case and contender the medians."""
    table: dict[str, dict[str, Row]] = {}
    with tempfile.TemporaryDirectory() as folder, servers(8, site.load_core) as ports:
        for case in chosen:
            found: dict[str, list[Row]] = {one.name: [] for one in those}
            for turn in range(case.rounds or rounds):
                for one in those:
                    with started(one, Path(folder, one.name, str(turn)), ports, core) as running:
                        found[one.name].append(case.measure(site, running))
                    print(f"{case.title}: {one.name}: {found[one.name][-1]}", file=sys.stderr)
            table[case.title] = {name: middle(rows) for name, rows in found.items()}
    return table


@contextmanager
def servers(count: int, core: int) -> Iterator[list[int]]:
    """The servers behind all contenders."""
    ports = free_ports(count)
    argv = ("taskset", "-c", str(core), sys.executable, str(ROOT / "bench/endpoint_server.py"), *map(str, ports))
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield ports
        finally:
            process.terminate()


def middle(rows: Sequence[Row]) -> Row:
    """The median of every figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def tables(found: dict[str, dict[str, Row]]) -> str:
    """As Markdown; the last column says how ours compares by the first figure: above 1 ours is better."""
    return "\n\n".join(_table(title, rows) for title, rows in found.items())


def _table(title: str, rows: dict[str, Row]) -> str:
    names = list(next(iter(rows.values())))
    better = ["CPU us", "CPU us/chunk", "CPU us/MiB", "KiB each"]
    measured = next(name for name in names if name in better)
    lines = [
        f"### {title}",
        "",
        f"| | {' | '.join(names)} | its {measured} / ours |",
        "|---|" + "--:|" * (len(names) + 1),
    ]
    for name, row in rows.items():
        ratio = row[measured] / rows["ours"][measured]
        lines.append(f"| {name} | {' | '.join(_figure(row[figure]) for figure in names)} | {ratio:.2f} |")
    return "\n".join(lines)


def _figure(value: float) -> str:
    if math.isnan(value):
        return "none"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.endpoint", description=__doc__)
    add_contender_options(parser)
    parser.add_argument("--wrk", default=shutil.which("wrk"), metavar="PROGRAM", help="else our own slower load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their title")
    parser.add_argument("--contenders", default="", metavar="NAME,...", help="those with these names")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    site = Site(options.wrk, cores[0], options.seconds)
    those = [one for one in contenders(options) if not options.contenders or one.name in options.contenders.split(",")]
    chosen = [case for case in cases(quick=False) if options.only in case.title]
    print(tables(measure(chosen, those, site, options.rounds, cores[-1])))


if __name__ == "__main__":
    main()
