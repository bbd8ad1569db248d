"""How a job step enters a container: options of the Pyxis plug-in, or ``apptainer exec`` in front of the command.

Both write several mounts or variables into one word with ``:`` and ``,`` between them and have no way to quote, so a
path that holds one of these cannot be said and is refused at plan time (`container_problems`).
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from core.problem import At, Malformed


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A host path that the container sees at `target`."""

    source: str
    target: str
    read_only: bool = False


class Pyxis(msgspec.Struct, frozen=True, kw_only=True, tag="pyxis", tag_field="kind"):
    """`name` is shared by all tasks of one node that give it, so it must hold job and step; None for a fresh one.

    `environment` are names whose values come from the host even where the image sets them.
    """

    image: str
    mounts: tuple[Mount, ...] = ()
    environment: tuple[str, ...] = ()
    workdir: str | None = None
    name: str | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that is set inside. Never a secret: argv is public."""

    name: str
    value: str


class Apptainer(msgspec.Struct, frozen=True, kw_only=True, tag="apptainer", tag_field="kind"):
    """The host's environment arrives by itself; `settings` win over what the image sets."""

    image: str
    mounts: tuple[Mount, ...] = ()
    settings: tuple[Setting, ...] = ()
    workdir: str | None = None
    gpu_flag: str | None = "--nv"


Container: TypeAlias = Pyxis | Apptainer | None
"""None runs natively."""

_BLANKS = " \t"
_CONTROL = "".join(map(chr, (*range(32), 127)))


def container_name(job_id: str, step: str) -> str:
    """A name that no other step has: array tasks and jobs on one node would share a container of the same name."""
    return f"dd-slurm-{job_id}-{step}"


def container_problems(container: Container, at: At) -> Iterator[Malformed]:
    """What the syntax of the runtime cannot say."""
    if container is None:
        return
    blank = _BLANKS if isinstance(container, Pyxis) else ""
    yield from _unsayable(container.image, blank + _CONTROL, _below(at, "image"))
    if container.workdir is not None:
        yield from _unsayable(container.workdir, _CONTROL, _below(at, "workdir"))
    for index, mount in enumerate(container.mounts):
        yield from _unsayable(mount.source, ":," + blank + _CONTROL, _below(at, f"mounts[{index}].source"))
        yield from _unsayable(mount.target, ":," + blank + _CONTROL, _below(at, f"mounts[{index}].target"))
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
    return (
        f"--container-image={container.image}",
        *([f"--container-name={container.name}"] if container.name else []),
        *([f"--container-mounts={','.join(map(_mount, container.mounts))}"] if container.mounts else []),
        *([f"--container-env={','.join(container.environment)}"] if container.environment else []),
        *([f"--container-workdir={container.workdir}"] if container.workdir else []),
        "--no-container-mount-home",
        "--no-container-entrypoint",
    )


def contained_command(container: Container, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command of a task."""
    if not isinstance(container, Apptainer):
        return command
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
