"""A client that is told to stop ends when nothing of what it made would be lost."""

import os
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
open(sys.argv[1] + "/ready", "w").close()
while True:
    time.sleep(60)
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
    _batch(tmp_path)
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=Path(__file__).parents[2]) as process:
        until((tmp_path / "ready").exists)
        process.send_signal(signal.SIGTERM)
        os.sched_yield()
        assert process.poll() is None
        (tmp_path / "metadata.json").touch()
        assert process.wait(20) == 143
