"""The Data Designer config that a run file names: read now, so that later edits change nothing, and judged as far as
that is possible without Data Designer, in the same way as the client will do it."""

import os
from collections.abc import Iterator

import msgspec
from returns.pipeline import is_successful
from returns.result import Success

from core.config.located import Located
from core.config.place import Place
from core.config.raw import parse
from core.config.read import Draft
from core.config.run_config import Builder, RunConfig
from core.config.tree import lines_of
from core.designer_config import Json, inner, seed_selection
from core.designer_rules import model_problems
from core.outcome import Outcome, problems_of, unless
from core.problem import Problem
from shell.authored.files_read import read_file
from shell.client.config_file import decode, with_seed_path


def read_builder(run: Draft[RunConfig], folder: str) -> Outcome[bytes | None]:
    """The config; None for a client command, and where the run file does not say soundly which it is.

    Errors: `Unreadable` and `Malformed` for the file; models that no deployment serves; seed data that is not there.
    """
    builder = run.located.value.builder
    if builder is None or not run.place.sound("builder") or run.located.value.client.command is not None:
        return Success(None)
    if builder.source is None:
        content = (builder.inline or "").encode()
        return unless(_inline_problems(run, content, folder), content)
    read = read_file(os.path.join(folder, builder.source), run.located.at("builder.source"))
    return read.bind(lambda found: unless(_file_problems(run, builder, found, folder), found))


def _inline_problems(run: Draft[RunConfig], content: bytes, folder: str) -> Iterator[Problem]:
    """What is no config has been reported with the run file."""
    decoded = decode(content, run.located.source)
    if is_successful(decoded):
        yield from _problems(run, decoded.unwrap(), run.place.into("builder.inline"), folder)


def _file_problems(run: Draft[RunConfig], builder: Builder, content: bytes, folder: str) -> Iterator[Problem]:
    """Lines are looked for only when there is something to say about them."""
    source = os.path.basename(builder.source or "")
    decoded = decode(content, source)
    if not is_successful(decoded):
        yield from problems_of(decoded)
        return
    nowhere = Place(file=Located(value=None, source=source))
    if any(True for _ in _problems(run, decoded.unwrap(), nowhere, folder)):
        lines = lines_of(parse(source, content).root)
        there = msgspec.structs.replace(nowhere, file=Located(value=None, source=source, lines=lines))
        yield from _problems(run, decoded.unwrap(), there, folder)


def _problems(run: Draft[RunConfig], config: Json, place: Place, folder: str) -> Iterator[Problem]:
    deployments = [run.place.item("deployments", index) for index in range(len(run.located.value.deployments))]
    if deployments and all(spot.sound("model_alias") for spot in deployments):
        deployed = [deployment.model_alias for deployment in run.located.value.deployments]
        yield from model_problems(config, deployed, place, [spot.at("model_alias") for spot in deployments])
    yield from _seed_problems(run, config, place, folder)


def _seed_problems(run: Draft[RunConfig], config: Json, place: Place, folder: str) -> Iterator[Problem]:
    """Of a path that the run file binds only whether there is anything to bind: the file may be on the cluster."""
    invocation, path = run.located.value.invocation, "invocation.input_bindings.seed_path"
    if invocation is None or not run.place.sound(path):
        return
    bound = invocation.input_bindings.seed_path
    if bound is None or seed_selection(config) is None:
        inside = place.into("data_designer") if inner(config) is not config else place
        seed_at = inside.at("seed_config.source.path")
        yield from with_seed_path(config, bound, folder, seed_at, run.located.at(path))[1]
