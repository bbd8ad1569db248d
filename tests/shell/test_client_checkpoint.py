"""A client that is told to stop ends when nothing of what it made would be lost."""

import signal
import subprocess
import sys
from pathlib import Path

from shell.client.checkpoint import can_be_resumed
from tests.shell.node_world import until

PROGRAM = """
import sys, time
from shell.client.checkpoint import stop_at_checkpoint
stop_at_checkpoint(sys.argv[1])
while True:
    with open(sys.argv[1] + "/life", "a") as life:
        life.write(".")
    time.sleep(0.01)
"""


def _batch(folder: Path) -> None:
    (folder / "parquet-files").mkdir()
    (folder / "parquet-files" / "batch_00000.parquet").touch()


def test_what_can_be_resumed(tmp_path: Path) -> None:
    assert can_be_resumed(str(tmp_path / "nothing-made-yet"))
    assert can_be_resumed(str(tmp_path))
    _batch(tmp_path)
    assert not can_be_resumed(str(tmp_path))
    (tmp_path / "metadata.json").touch()
    assert can_be_resumed(str(tmp_path))


def test_waits_for_the_metadata_of_the_first_batch(tmp_path: Path) -> None:
    """It lives on after TERM, until they are there."""
    _batch(tmp_path)
    life = tmp_path / "life"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=Path(__file__).parents[2]) as process:
        until(life.exists)
        process.send_signal(signal.SIGTERM)
        lived = life.stat().st_size
        until(lambda: life.stat().st_size > lived + 5)
        (tmp_path / "metadata.json").touch()
        assert process.wait(20) == 143
