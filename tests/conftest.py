"""Helpers of all tests: golden files that a plain run never writes."""

import difflib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

Golden = Callable[[Path, str], None]

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("thorough", deadline=None, derandomize=True, max_examples=120)
settings.load_profile("quick")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: Path, now: str) -> None:
        if update:
            path.write_text(now)
            return
        assert path.exists(), f"{path} is missing; accept with: pytest --update-golden"
        was = path.read_text()
        if was != now:
            diff = difflib.unified_diff(was.splitlines(), now.splitlines(), path.name, "now", n=1, lineterm="")
            pytest.fail("\n".join([*diff, "accept with: pytest --update-golden"]), pytrace=False)

    return compare
