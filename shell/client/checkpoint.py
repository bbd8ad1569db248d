"""Being told to stop while Data Designer works: end when what is on the disk can be gone on with."""

import glob
import os
import signal
import threading
import time

ROWS = "parquet-files/batch_*.parquet"
METADATA = "metadata.json"
PATIENCE_S = 3.0
"""Far below the grace that the controller gives."""
_LOOK_EVERY_S = 0.02
_EXIT_TERM = 143


def stop_at_checkpoint(folder: str) -> None:
    """From now on TERM ends this process as soon as the dataset in `folder` can be resumed, or after a short patience.

    Each batch is a file that is moved into place; but the first of them is forgotten unless the metadata are written
    too, which happens a moment later. Data Designer goes on meanwhile, in whichever thread it runs.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: threading.Thread(target=_end, args=(folder,)).start())


def _end(folder: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not can_be_resumed(folder) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    os._exit(_EXIT_TERM)


def can_be_resumed(folder: str) -> bool:
    """Whether nothing of what has been made would be lost."""
    return os.path.exists(os.path.join(folder, METADATA)) or not glob.glob(ROWS, root_dir=folder)
