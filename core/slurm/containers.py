"""How a job step enters a container: options of the Pyxis plug-in, or ``apptainer exec`` in front of the command.

Both write several mounts or variables into one word with ``:`` and ``,`` between them and have no way to quote, so a
path that holds one of these cannot be said and is refused at plan time (`container_problems`). Pyxis hands mounts on
through a shell, so that what a shell expands cannot be said either.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from core.problem import At, Malformed


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A host path that the container sees at `target`."""

    source: str
    target: str
    read_only: bool = False


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that is set inside, whatever the image sets. Never a secret: argv is public."""

    name: str
    value: str


class Pyxis(msgspec.Struct, frozen=True, kw_only=True, tag="pyxis", tag_field="kind"):
    """`name` is shared by all tasks of one node that give it, so it must hold job and step; None for a fresh one.

    The host's environment arrives by itself. `environment` are names whose values come from the host even where the
    image sets them.
    """

    image: str
    mounts: tuple[Mount, ...] = ()
    settings: tuple[Setting, ...] = ()
    environment: tuple[str, ...] = ()
    workdir: str | None = None
    name: str | None = None


class Apptainer(msgspec.Struct, frozen=True, kw_only=True, tag="apptainer", tag_field="kind"):
    """As `Pyxis`; `environment` is handed on beside the command line (`outer_environment`)."""

    image: str
    mounts: tuple[Mount, ...] = ()
    settings: tuple[Setting, ...] = ()
    environment: tuple[str, ...] = ()
    workdir: str | None = None
    gpu_flag: str | None = "--nv"


Container: TypeAlias = Pyxis | Apptainer | None
"""None runs natively."""

_BLANKS = " \t"
_CONTROL = "".join(map(chr, (*range(32), 127)))
_SHELL = '"$`\\'
_OF_APPTAINER = "APPTAINERENV_"
"""With this before its name, a variable of the host wins over the image's."""


def container_name(job_id: str, step: str) -> str:
    """A name that no other step has: array tasks and jobs on one node would share a container of the same name."""
    return f"dd-slurm-{job_id}-{step}"


def container_problems(container: Container, at: At) -> Iterator[Malformed]:
    """What the syntax of the runtime cannot say."""
    if container is None:
        return
    blank = _BLANKS if isinstance(container, Pyxis) else ""
    separators = f":,\\{blank}{_CONTROL}{_SHELL if isinstance(container, Pyxis) else ''}"
    yield from _unsayable(container.image, blank + _CONTROL, _below(at, "image"))
    if container.image.startswith("-"):
        yield Malformed(at=_below(at, "image"), found=repr(container.image), expected="a text that is no option")
    if container.workdir is not None:
        yield from _unsayable(container.workdir, _CONTROL, _below(at, "workdir"))
    for index, mount in enumerate(container.mounts):
        yield from _unsayable(mount.source, separators, _below(at, f"mounts[{index}].source"))
        yield from _unsayable(mount.target, separators, _below(at, f"mounts[{index}].target"))
    if isinstance(container, Pyxis):
        for index, name in enumerate(container.environment):
            yield from _unsayable(name, "=," + blank + _CONTROL, _below(at, f"environment[{index}]"))
        yield from _unsayable(container.name or "-", ":,/" + blank + _CONTROL, _below(at, "name"))
        return
    for index, setting in enumerate(container.settings):
        yield from _unsayable(setting.value or "-", ',"' + _CONTROL, _below(at, f"settings[{index}].value"))


def container_options(container: Container) -> tuple[str, ...]:
    """What ``srun`` is told about it."""
    if not isinstance(container, Pyxis):
        return ()
    names = (*(setting.name for setting in container.settings), *container.environment)
    return (
        f"--container-image={container.image}",
        *([f"--container-name={container.name}"] if container.name else []),
        *([f"--container-mounts={','.join(map(_mount, container.mounts))}"] if container.mounts else []),
        *([f"--container-env={','.join(names)}"] if names else []),
        *([f"--container-workdir={container.workdir}"] if container.workdir else []),
        "--no-container-mount-home",
        "--no-container-entrypoint",
    )


def contained_command(container: Container, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command of a task.

    ``srun`` looks for a bare name in its own PATH and hands on the path that it finds there, which need not exist in
    the image, or is another program: in the image ``env`` looks for it.
    """
    if container is None or (isinstance(container, Pyxis) and "/" in command[0]):
        return command
    if isinstance(container, Pyxis):
        return ("/usr/bin/env", *command)
    return (
        "apptainer",
        "exec",
        *([container.gpu_flag] if container.gpu_flag else []),
        "--no-home",
        *(f"--bind={_mount(mount)}" for mount in container.mounts),
        *(f"--env={setting.name}={setting.value}" for setting in container.settings),
        *([f"--pwd={container.workdir}"] if container.workdir else []),
        container.image,
        *command,
    )


def outer_environment(container: Container, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of ``srun`` for a step that enters the container; `environ` is that of one that enters none."""
    if isinstance(container, Pyxis):
        return {**environ, **{setting.name: setting.value for setting in container.settings}}
    if isinstance(container, Apptainer):
        wins = {f"{_OF_APPTAINER}{name}": environ[name] for name in container.environment if name in environ}
        return {**environ, **wins}
    return dict(environ)


def _mount(mount: Mount) -> str:
    return f"{mount.source}:{mount.target}" + (":ro" if mount.read_only else "")


def _below(at: At, field: str) -> At:
    return At(source=at.source, path=f"{at.path}.{field}" if at.path else field, line=at.line)


def _unsayable(text: str, forbidden: str, at: At) -> Iterator[Malformed]:
    found = sorted({character for character in text if character in forbidden})
    if found or not text:
        shown = " ".join(map(_named, found)) or "nothing"
        yield Malformed(
            at=at, found=f"{text!r} with {shown}", expected=f"a text without {shown}, which cannot be quoted"
        )


def _named(character: str) -> str:
    return {" ": "a blank", "\t": "a tab", "\n": "a line break"}.get(character, repr(character))
