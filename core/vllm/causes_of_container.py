"""Known causes that lie in a container: its image, its mounts, its runtime. Words of Pyxis, Enroot and Apptainer."""

from core.vllm.known_cause import KnownCause

CONTAINER_CAUSES = (
    KnownCause(
        code="pyxis-missing",
        title="Pyxis is not installed",
        patterns=(r"srun: (?:error: )?(?:unrecognized|invalid) option '?--container-",),
        hint="ask the site for the Pyxis plug-in of Slurm, or use `container: apptainer` in the profile, or "
        "`container: none` with vLLM on the nodes",
    ),
    KnownCause(
        code="apptainer-missing",
        title="apptainer is not installed on the node",
        patterns=(r"execve\(\): \S*apptainer: No such file or directory",),
        hint="install Apptainer on all nodes, load its module before you submit so that it is in the PATH of the job, "
        "or use another `container` in the profile",
    ),
    KnownCause(
        code="image-missing",
        title="the image is not there",
        patterns=(
            r"pyxis:\s+\[ERROR\] No such file or directory: (?P<image>\S+)",
            r"could not open image (?P<image>\S+): .*no such file",
        ),
        hint="{image} must be readable on every node: mend `images` of the profile or `server.image.path`",
    ),
    KnownCause(
        code="image-not-given",
        title="the registry does not give the image",
        patterns=(r"pyxis:\s+\[ERROR\] URL (?P<url>\S+) returned error code: (?P<status>\d+ ?\w*)",),
        hint="{url} answers {status}: check the name of the image, and the credentials of Enroot "
        "(~/.config/enroot/.credentials); better import it once to a file on shared storage and name that",
    ),
    KnownCause(
        code="container-disk-full",
        title="the node has no room to unpack the image",
        patterns=(r"(?:pyxis|enroot|unsquashfs)[:-].*No space left on device",),
        hint="clear the folders of Enroot or Apptainer on the node (ENROOT_DATA_PATH, ENROOT_CACHE_PATH, "
        "APPTAINER_CACHEDIR): every step of the run unpacks the image there",
    ),
    KnownCause(
        code="mount-missing",
        title="a folder cannot be mounted",
        patterns=(
            r"mount source (?P<path>\S+) doesn't exist",
            r"enroot-mount: failed to mount: (?P<path>\S+) at \S+: (?:No such file or directory|Permission denied)",
        ),
        hint="{path} is missing on the node or closed to you: mend `container_mounts` of the profile, or mount its "
        "file system there",
    ),
    KnownCause(
        code="container-gpu",
        title="the container runtime cannot give the container its GPUs",
        patterns=(r"nvidia-container-cli: (?P<words>.+)",),
        hint="the node's NVIDIA container tools say: {words}; tell the site, and exclude the node",
    ),
    KnownCause(
        code="image-without-python",
        title="the image has no python3",
        patterns=(
            r"env: .?python3.?: No such file or directory",
            r"\"python3\": executable file not found in \$PATH",
            r"execve\(\): /usr/bin/env: No such file or directory",
        ),
        hint="use an image in whose PATH the python3 that has vLLM stands (`server.image`)",
    ),
    KnownCause(
        code="image-without-msgspec",
        title="the first python3 of the image is not that of vLLM",
        patterns=(
            r"ModuleNotFoundError: No module named 'msgspec'",
            r"ImportError: cannot import name 'TypeAlias' from 'typing'",
        ),
        hint="the node worker needs Python 3.10 or newer with msgspec, which vLLM brings: put the python3 of vLLM "
        "first in the PATH that the image sets",
    ),
    KnownCause(
        code="container-runtime",
        title="the container could not be started",
        patterns=(
            r"pyxis:\s{2,}(?!\[(?:INFO|WARN)\])(?P<words>\S.+)",
            r"container creation failed: (?P<words>.+)",
        ),
        hint="the runtime says: {words}; try the same image by hand on that node",
    ),
    KnownCause(
        code="container-not-started",
        title="the container could not be started",
        patterns=(
            r"pyxis: failed to (?:import|create) ",
            r"pyxis: container (?:start failed|exited too soon)",
            r"pyxis: couldn't ",
        ),
        hint="Pyxis gives no reason: ask the site for the log of slurmd on that node, and try the same image by hand",
        weight="symptom",
    ),
)
