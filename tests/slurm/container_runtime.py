"""Stand-ins for Pyxis and Apptainer, for machines that have neither: namespaces of Linux, and a folder for an image.

``container_runtime.py srun …`` is an `srun` that knows the options of Pyxis: it takes them off and has the task enter
the container on its node. ``container_runtime.py apptainer exec …`` is an `apptainer`. As in the real ones, only what
the image brings and what is mounted can be seen inside, there is no home, the host's environment arrives and the
image's wins over it, unless told otherwise. Standard library only; nothing of the project is imported.

An image is a folder: ``rootfs/`` is its content, ``brings`` lists paths of this machine that it shows too (so that no
operating system must be copied), ``environment`` holds its variables, a line each.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

NEW_ROOT = "/mnt"
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_NOSUID, MS_NODEV = 2, 4
OF_THE_NODE = ("/proc", "/sys", "/dev")
SRUN = "/usr/bin/srun"
_LIBC = ctypes.CDLL(None, use_errno=True)
_PYXIS = ("container-image", "container-name", "container-mounts", "container-env", "container-workdir")
_PYXIS_SWITCHES = ("no-container-mount-home", "no-container-entrypoint")
_PYXIS_HELP = """
Options provided by plugins:
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
                              [pyxis] the image to use for the container
                              filesystem.
"""


class Refused(Exception):
    """The container cannot be started; the text is for the runtime's own words."""


class Asked(NamedTuple):
    """A container to be entered. `wins` are variables that win over the image's."""

    image: str
    mounts: Sequence[str]
    wins: Mapping[str, str]
    workdir: str


# --- entering -----------------------------------------------------------------------------------------------------


def enter(asked: Asked) -> dict[str, str]:
    """Go into the container and stay there; the environment of what runs there."""
    if not os.path.isdir(f"{asked.image}/rootfs"):
        raise Refused(f"No such file or directory: {asked.image}")
    image_environment = dict(line.split("=", 1) for line in _lines(f"{asked.image}/environment"))
    user, group = os.getuid(), os.getgid()
    _check(_LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{file}", "w") as written:
            written.write(text)
    _mount(None, "/", MS_REC | MS_PRIVATE)
    _mount("tmpfs", NEW_ROOT, MS_NOSUID | MS_NODEV, kind="tmpfs")
    for path in (*_lines(f"{asked.image}/brings"), *OF_THE_NODE):
        _show(path, path)
    for name in os.listdir(f"{asked.image}/rootfs"):
        _show(f"{asked.image}/rootfs/{name}", f"/{name}")
    os.makedirs(f"{NEW_ROOT}/tmp", mode=0o1777, exist_ok=True)
    os.chmod(f"{NEW_ROOT}/tmp", 0o1777)
    for mount in asked.mounts:
        source, target, *flags = mount.split(":")
        if not os.path.exists(source):
            raise Refused(f"failed to mount: {source} at {NEW_ROOT}{target}: No such file or directory")
        _show(source, target, read_only=flags == ["ro"])
    os.chroot(NEW_ROOT)
    os.chdir(asked.workdir)
    return {**os.environ, **image_environment, **asked.wins}


def _show(source: str, target: str, read_only: bool = False) -> None:
    path = f"{NEW_ROOT}{target}"
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a"):
            pass
    _mount(source, path, MS_BIND | MS_REC)
    if read_only:
        _mount(None, path, MS_BIND | MS_REMOUNT | MS_RDONLY)


def _mount(source: str | None, target: str, flags: int, kind: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _check(_LIBC.mount(*words, ctypes.c_ulong(flags), None), f"mount {source} {target}")


def _check(code: int, what: str) -> None:
    if code != 0:
        raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")


def _lines(path: str) -> list[str]:
    with open(path) as file:
        return file.read().split("\n")[:-1]


def _become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """The command, looked up in the PATH of the container."""
    found = command[0] if "/" in command[0] else shutil.which(command[0], path=environ.get("PATH", ""))
    if found is None:
        raise FileNotFoundError(command[0])
    os.execve(found, list(command), dict(environ))


# --- Pyxis --------------------------------------------------------------------------------------------------------


def srun(words: list[str]) -> int:
    """`srun` on the host of the controller."""
    if words == ["--help"]:
        os.spawnv(os.P_WAIT, SRUN, [SRUN, "--help"])
        print(_PYXIS_HELP, end="")
        return 0
    options: dict[str, str] = {}
    left: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, _, value = rest.pop(0).partition("=")
        if name[2:] in _PYXIS or name[2:] in _PYXIS_SWITCHES:
            options[name[2:]] = value
        else:
            left.append(f"{name}={value}" if value else name)
    if "container-image" not in options:
        return os.execv(SRUN, [SRUN, *words])
    # Like the real one, which hands on the path that it finds here.
    rest[0] = shutil.which(rest[0]) or rest[0]
    task = [sys.executable, "-S", "-E", os.path.abspath(__file__), "task", json.dumps(options), *rest]
    return os.execv(SRUN, [SRUN, *left, *task])


def task(options: Mapping[str, Any], command: Sequence[str]) -> int:
    """One task, on its node, in the place of Pyxis in slurmstepd."""
    names = options["container-env"].split(",") if options.get("container-env") else []
    asked = Asked(
        image=options["container-image"],
        mounts=options["container-mounts"].split(",") if options.get("container-mounts") else [],
        wins={name: os.environ[name] for name in names if name in os.environ},
        workdir=options.get("container-workdir") or "/",
    )
    _use_name(options["container-name"])
    try:
        _become(command, enter(asked))
    except Refused as refused:
        return _pyxis_fails("[ERROR] " + str(refused))
    except OSError as error:
        print(f"slurmstepd: error: execve(): {command[0]}: {error.strerror}", file=sys.stderr)
        return 2


def _use_name(name: str) -> None:
    """A name that was there before on this node would give what is left of another step."""
    folder = f"/dev/shm/containers-of-{os.environ['SLURM_JOB_ID']}"
    os.makedirs(folder, exist_ok=True)
    try:
        os.mkdir(f"{folder}/{name}")
    except FileExistsError:
        sys.exit(_pyxis_fails(f"[ERROR] File already exists: {name}"))


def _pyxis_fails(reason: str) -> int:
    words = ("container start failed with error code: 1", "printing enroot log file:", f"    {reason}")
    for line in (*words, "couldn't start container"):
        print(f"slurmstepd: error: pyxis: {line}", file=sys.stderr)
    return 1


# --- Apptainer ----------------------------------------------------------------------------------------------------


def apptainer(words: list[str]) -> int:
    """`apptainer exec` stays, as the real one does, and hands signals on to what it started."""
    if words[:1] != ["exec"]:
        print("FATAL:   only exec is played", file=sys.stderr)
        return 255
    rest = words[1:]
    given: dict[str, list[str]] = {}
    while rest[0].startswith("--"):
        name, _, value = rest.pop(0).partition("=")
        given.setdefault(name, []).append(value)
    unknown = set(given) - {"--nv", "--no-home", "--bind", "--env", "--pwd"}
    if unknown or "--no-home" not in given:
        print(f"FATAL:   unknown flags or a home: {sorted(given)}", file=sys.stderr)
        return 255
    if not os.path.exists(rest[0]):
        print(f"FATAL:   could not open image {rest[0]}: lstat {rest[0]}: no such file or directory", file=sys.stderr)
        return 255
    prefix = "APPTAINERENV_"
    beside = {name[len(prefix) :]: value for name, value in os.environ.items() if name.startswith(prefix)}
    settings = dict(setting.split("=", 1) for setting in given.get("--env", []))
    workdir = given.get("--pwd", ["/"])[0]
    asked = Asked(image=rest[0], mounts=given.get("--bind", []), wins={**beside, **settings}, workdir=workdir)
    return _child(asked, rest[1:])


def _child(asked: Asked, command: Sequence[str]) -> int:
    forwarded = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    child = os.fork()
    if child == 0:
        os._exit(_in_child(asked, command, forwarded))
    for number in forwarded:
        signal.signal(number, lambda got, _: os.kill(child, got))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code


def _in_child(asked: Asked, command: Sequence[str], blocked: Iterable[int]) -> int:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    try:
        _become(command, enter(asked))
    except Refused as refused:
        print(f"FATAL:   container creation failed: {refused}", file=sys.stderr, flush=True)
    except OSError as error:
        print(f'FATAL:   "{command[0]}": {error.strerror}', file=sys.stderr, flush=True)
    return 255


if __name__ == "__main__":
    if sys.argv[1] == "task":
        sys.exit(task(json.loads(sys.argv[2]), sys.argv[3:]))
    sys.exit((srun if sys.argv[1] == "srun" else apptainer)(sys.argv[2:]))
