"""The reaper tells about exits and lines, in order, and signals reach whole families."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from shell.launch.processes import Reaper
from tests.shell.node_world import PATIENCE_S, REPOSITORY, alive, until

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    started = Reaper()
    yield started
    started.close()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)],
)
def test_tells_the_exit_code(reaper: Reaper, tmp_path: Path, code: str, expected: int) -> None:
    told: SimpleQueue[int] = SimpleQueue()
    child = reaper.spawn(python(code), os.environ, str(tmp_path / "log"), told.put)
    assert told.get(timeout=PATIENCE_S) == expected
    assert child.gone


def test_output_is_appended_to_the_log(reaper: Reaper, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    told: SimpleQueue[int] = SimpleQueue()
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    reaper.spawn(python(code), os.environ, str(log), told.put)
    told.get(timeout=PATIENCE_S)
    assert log.read_text() == "before\nout\nerr\n"


def test_all_lines_come_before_the_exit(reaper: Reaper, tmp_path: Path) -> None:
    told: SimpleQueue[str] = SimpleQueue()
    code = "import sys; sys.stdout.write('x\\n' * 50_000 + 'the end')"
    reaper.spawn(
        python(code), os.environ, str(tmp_path / "log"), lambda code: told.put(f"exit {code}"), on_line=told.put
    )
    lines = [told.get(timeout=PATIENCE_S) for _ in range(50_002)]
    assert lines[-2:] == ["the end", "exit 0"]
    assert set(lines[:-2]) == {"x"}


def test_output_and_exit_that_come_together(reaper: Reaper, tmp_path: Path) -> None:
    told: SimpleQueue[str] = SimpleQueue()
    words = ("sh", "-c", "echo line; exec true")
    for _ in range(60):
        reaper.spawn(words, os.environ, str(tmp_path / "log"), lambda code: told.put(f"exit {code}"), on_line=told.put)
    heard = [told.get(timeout=PATIENCE_S) for _ in range(120)]
    assert sorted(heard) == ["exit 0"] * 60 + ["line"] * 60


def test_an_exit_is_told_although_a_grandchild_keeps_the_output_open(reaper: Reaper, tmp_path: Path) -> None:
    told: SimpleQueue[int] = SimpleQueue()
    lines: SimpleQueue[str] = SimpleQueue()
    code = "import os, time; pid = os.fork(); time.sleep(600 * (pid == 0)); print(pid)"
    reaper.spawn(python(code), os.environ, str(tmp_path / "log"), told.put, on_line=lines.put)
    assert told.get(timeout=PATIENCE_S) == 0
    os.kill(int(lines.get(timeout=PATIENCE_S)), signal.SIGKILL)


def test_what_is_written_arrives(reaper: Reaper, tmp_path: Path) -> None:
    told: SimpleQueue[int] = SimpleQueue()
    child = reaper.spawn(
        python("raise SystemExit(int(input()))"), os.environ, str(tmp_path / "log"), told.put, stdin="pipe"
    )
    assert child.write(b"5\n")
    assert told.get(timeout=PATIENCE_S) == 5
    assert not child.write(b"6\n")


def test_kill_reaches_what_has_left_the_session(reaper: Reaper, tmp_path: Path) -> None:
    told: SimpleQueue[int] = SimpleQueue()
    lines: SimpleQueue[str] = SimpleQueue()
    code = (
        "import os, time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.setsid(); print(os.getpid(), flush=True)\n"
        "time.sleep(600)"
    )
    child = reaper.spawn(python(code), os.environ, str(tmp_path / "log"), told.put, on_line=lines.put)
    hidden = int(lines.get(timeout=PATIENCE_S))
    child.signal(signal.SIGKILL)
    assert told.get(timeout=PATIENCE_S) == -9
    until(lambda: not alive(hidden))
    child.signal(signal.SIGTERM)


def test_an_old_kernel_without_pidfd(reaper: Reaper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int, flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    told: SimpleQueue[int] = SimpleQueue()
    reaper.spawn(python("raise SystemExit(4)"), os.environ, str(tmp_path / "log"), told.put)
    assert told.get(timeout=PATIENCE_S) == 4


def test_a_callback_that_breaks_ends_the_program(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from shell.launch.processes import Reaper;"
        "Reaper().spawn(('true',), os.environ, sys.argv[1], lambda code: 1 // code); time.sleep(600)"
    )
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", code, str(tmp_path / "log")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == os.EX_SOFTWARE
    assert "ZeroDivisionError" in done.stderr


def test_a_program_that_is_not_there(reaper: Reaper, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        reaper.spawn(("/no/such/program",), os.environ, str(tmp_path / "log"), lambda code: None)


def test_what_is_offered_never_makes_anybody_wait(reaper: Reaper, tmp_path: Path) -> None:
    told: SimpleQueue[int] = SimpleQueue()
    deaf = reaper.spawn(python("input(); input()"), os.environ, str(tmp_path / "log"), told.put, stdin="pipe")
    os.kill(deaf.pid, signal.SIGSTOP)
    taken = sum(deaf.offer(b"x" * 1023 + b"\n") for _ in range(1000))
    assert 0 < taken < 1000
    os.kill(deaf.pid, signal.SIGCONT)
    assert told.get(timeout=PATIENCE_S) == 0
    assert not deaf.offer(b"x\n")
    silent = reaper.spawn(python("pass"), os.environ, str(tmp_path / "log"), told.put)
    assert told.get(timeout=PATIENCE_S) == 0
    assert not silent.offer(b"x\n")
