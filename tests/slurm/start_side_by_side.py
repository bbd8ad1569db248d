"""start_side_by_side FOLDER [--unscrubbed]: starts all of FOLDER/commands.json, in a job; writes FOLDER/ends.json."""

import json
import os
import subprocess
import sys
from pathlib import Path

from core.slurm.environ import step_environment


def main(folder: Path, scrub: bool) -> None:
    """Runs the commands with the environment that the controller would give them."""
    environ = step_environment(os.environ) if scrub else dict(os.environ)
    running = {
        name: subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for name, argv in json.loads((folder / "commands.json").read_text()).items()
    }
    said = {name: process.communicate(timeout=60)[0] for name, process in running.items()}
    ends = {name: {"code": process.returncode, "said": said[name]} for name, process in running.items()}
    (folder / "ends.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--unscrubbed" not in sys.argv)
