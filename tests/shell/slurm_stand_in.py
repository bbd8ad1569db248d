"""Stand-ins for Slurm's commands, as shell scripts over a folder of jobs; a test says what sbatch does."""

import os
from pathlib import Path

_SBATCH = """#!/bin/sh
cd {folder}
if [ "$1" = --test-only ]; then cat test-only.error >&2; [ ! -s test-only.error ]; exit; fi
for script; do :; done
name=$(sed -n 's/^#SBATCH --job-name=//p' "$script")
array=$(sed -n 's/^#SBATCH --array=//p' "$script")
echo "sbatch $*" >>calls
env >sbatch.env
pwd -P >/dev/null; umask >sbatch.umask
accept() {{
  id=$(($(ls jobs | wc -l) + 41))
  echo "HELD ${{array:-N/A}} $name" >jobs/$id
}}
{behaviour}
"""
_SQUEUE = """#!/bin/sh
cd {folder}
echo "squeue $*" >>calls
if [ -s queue.error ]; then cat queue.error >&2; exit 1; fi
for job in $(ls jobs); do
  read -r state array name <jobs/$job
  [ "$state" = CANCELLED ] || case " $* " in *" --name=$name "*) echo "$job|$array|PENDING|$name";; esac
done
"""
_CHANGE = """#!/bin/sh
cd {folder}
echo "{command} $*" >>calls
if [ -s {command}.error ]; then cat {command}.error >&2; exit 1; fi
for job; do :; done
sed -i 's/^[A-Z]*/{state}/' jobs/$job
"""
ACCEPT = "accept; echo $id"


class StandIn:
    """The commands in `bin`, and what became of the jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.jobs = folder / "jobs"
        self.bin.mkdir(parents=True)
        self.jobs.mkdir()
        self.fails("test-only", "")
        self.sbatch_does(ACCEPT)
        self._script("squeue", _SQUEUE)
        self._script("sacct", "#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n")
        self._script("scontrol", _CHANGE, command="scontrol", state="RELEASED")
        self._script("scancel", _CHANGE, command="scancel", state="CANCELLED")

    def sbatch_does(self, behaviour: str) -> None:
        """Shell commands; ``accept`` makes a held job and sets ``$id``."""
        self._script("sbatch", _SBATCH, behaviour=behaviour)

    def fails(self, command: str, text: str) -> None:
        """Make a command fail from now on; with an empty text it works again."""
        (self.folder / f"{'queue' if command == 'squeue' else command}.error").write_text(text)

    def without(self, command: str) -> None:
        (self.bin / command).unlink()

    def states(self) -> dict[str, str]:
        """Jobs by id: HELD, RELEASED or CANCELLED."""
        return {path.name: path.read_text().split()[0] for path in sorted(self.jobs.iterdir())}

    def calls(self, command: str) -> list[str]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split()[0] == command]

    def environment(self) -> dict[str, str]:
        """What sbatch was started with."""
        lines = (self.folder / "sbatch.env").read_text().splitlines()
        return dict(line.partition("=")[::2] for line in lines if "=" in line)

    def _script(self, name: str, text: str, **values: str) -> None:
        path = self.bin / name
        path.write_text(text.format(folder=self.folder, **values) if "{folder}" in text else text)
        os.chmod(path, 0o755)
