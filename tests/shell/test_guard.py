"""A guarded program: its exit code is kept, signals reach it, and whatever dies, nothing stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell.node_world import PATIENCE_S, REPOSITORY, alive, family, until

pytestmark = pytest.mark.usefixtures("nothing_left")

PRELUDE = """
import os, signal, subprocess, sys, time
from shell.worker.guard import guarded
folder = sys.argv[1]
def note(name, text=""):
    with open(f"{folder}/{name}.new", "w") as file:
        file.write(str(text))
    os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
def nap():
    return subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
"""


def start(program: str, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "errors").open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program, str(folder)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stderr=errors,
            start_new_session=True,
        )


NAPPING = """
def main():
    nap(); nap()
    note("ready", os.getpid())
    signal.pause()
sys.exit(guarded(main, clean_up=lambda: note("clean")))
"""


def ready(folder: Path) -> int:
    until(lambda: (folder / "ready").exists())
    return int((folder / "ready").read_text())


@pytest.mark.parametrize(
    ("body", "code"),
    [("return 0", 0), ("return 75", 75), ("sys.exit(3)", 3), ("sys.exit('no')", 1), ("return 1 // 0", 70)],
)
def test_the_exit_code_is_kept(tmp_path: Path, body: str, code: int) -> None:
    process = start(f"def main():\n    {body}\nsys.exit(guarded(main))", tmp_path)
    assert process.wait(PATIENCE_S) == code
    assert ("ZeroDivisionError" in (tmp_path / "errors").read_text()) == (code == 70)


@pytest.mark.parametrize("output", ["open('/dev/full', 'w')", "None"])
def test_output_that_leads_nowhere_changes_nothing(tmp_path: Path, output: str) -> None:
    main = "def main():\n    note('left', nap().pid)\n    print('lost')\n    return 5\n"
    process = start(f"sys.stdout = {output}\n{main}sys.exit(guarded(main))", tmp_path)
    assert process.wait(PATIENCE_S) == 5, (tmp_path / "errors").read_text()
    assert not alive(int((tmp_path / "left").read_text()))


def test_processes_that_the_worker_leaves_are_killed(tmp_path: Path) -> None:
    process = start("sys.exit(guarded(lambda: note('left', nap().pid) or 0))", tmp_path)
    assert process.wait(PATIENCE_S) == 0
    assert not alive(int((tmp_path / "left").read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = start(NAPPING, tmp_path)
    worker = ready(tmp_path)
    everything = family(process.pid)
    assert len(everything) == 4
    os.kill(worker, number)
    assert process.wait(PATIENCE_S) == 128 + number
    assert not any(map(alive, everything))
    assert (tmp_path / "clean").exists()


def test_a_worker_learns_that_its_guard_was_killed(tmp_path: Path) -> None:
    process = start(
        """
def main():
    def stop(*_):
        note("stopped")
        sys.exit(0)
    signal.signal(signal.SIGTERM, stop)
    note("ready", os.getpid())
    signal.pause()
sys.exit(guarded(main, clean_up=lambda: note("clean")))
""",
        tmp_path,
    )
    worker = ready(tmp_path)
    process.kill()
    process.wait()
    until(lambda: not alive(worker))
    assert (tmp_path / "stopped").exists()
    until(lambda: (tmp_path / "clean").exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_worker(tmp_path: Path, number: signal.Signals) -> None:
    process = start(
        """
def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda caught, _: sys.exit(100 + caught))
    note("ready", os.getpid())
    signal.pause()
sys.exit(guarded(main))
""",
        tmp_path,
    )
    ready(tmp_path)
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 100 + number


STARTER = """
code = '''
import os, signal, sys
from shell.worker.guard import guarded
def main():
    open(sys.argv[2] + ".new", "w").write(str(os.getpid()))
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    signal.pause()
sys.exit(guarded(main, starter=int(sys.argv[1])))
'''
starter = os.getpid()
child = subprocess.Popen([sys.executable, "-c", code, str(starter), folder + "/ready"], start_new_session=True)
note("child", child.pid)
child.wait()
"""


def test_everything_ends_with_its_starter(tmp_path: Path) -> None:
    starter = start(STARTER, tmp_path)
    ready(tmp_path)
    everything = family(starter.pid)
    assert len(everything) == 3
    starter.kill()
    starter.wait()
    until(lambda: not any(map(alive, everything)))


def test_a_starter_that_is_gone_already_is_noticed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-S", "-c", ""])
    gone.wait()
    process = start(STARTER.replace("starter = os.getpid()", f"starter = {gone.pid}"), tmp_path)
    assert process.wait(PATIENCE_S) == 0
    assert not alive(int((tmp_path / "child").read_text()))
