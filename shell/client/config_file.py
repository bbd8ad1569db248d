"""The copied Data Designer config, in YAML or JSON, as plain values with seed paths that can be found."""

import json
import os
from typing import cast

import yaml
from returns.pipeline import is_successful
from returns.result import Success

from core.client_spec import DesignerWork
from core.designer_config import Json, SeedSelection, inner, seed_selection, with_seed
from core.outcome import Outcome, refuse
from core.problem import At, BadSyntax, Malformed, PathUnusable, Problem, Problems, Unreadable, WrongCombination

DATA_FILES = (".parquet", ".csv", ".json", ".jsonl")
_BOUND_AT = At(source="run file", path="invocation.input_bindings.seed_path")


def load(work: DesignerWork) -> tuple[Json, Problems]:
    """The config with its seed path made absolute or replaced; empty when it cannot be read."""
    source = source_of(work)
    try:
        with open(work.builder, "rb") as file:
            content = file.read()
    except OSError as error:
        return {}, (Unreadable(at=At(source=source), reason=str(error)),)
    config = decode(content, source)
    if not is_successful(config):
        return {}, config.failure()
    seed_at = At(source=source, path="seed_config.source.path")
    bound = work.invocation.input_bindings.seed_path
    return with_seed_path(config.unwrap(), bound, work.base_folder, seed_at, _BOUND_AT)


def source_of(work: DesignerWork) -> str:
    """What the author calls the config."""
    return os.path.basename(work.source or work.builder)


def decode(content: bytes, source: str) -> Outcome[Json]:
    """A whole config. Errors: `BadSyntax`, `Malformed`."""
    try:
        config = _decoded(content.decode("utf-8-sig"), source)
    except (ValueError, OverflowError) as error:  # not UTF-8, or a date or a number that there is not
        return refuse(BadSyntax(at=At(source=source), reason=str(error)))
    except RecursionError:
        return refuse(BadSyntax(at=At(source=source), reason="nested too deep"))
    if isinstance(config, BadSyntax):
        return refuse(config)
    if not isinstance(config, dict) or not isinstance(inner(config).get("columns"), list):
        expected = "a Data Designer config: {data_designer: {…}} or {columns: […], …}"
        return refuse(Malformed(at=At(source=source), found=type(config).__name__, expected=expected))
    return Success(cast(Json, config))


def _decoded(text: str, source: str) -> object:
    """JSON, else YAML: files begin with a brace in either."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        not_json = error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        if text.lstrip().startswith("{"):
            return BadSyntax(at=At(source=source, line=not_json.lineno), reason=not_json.msg)
        return BadSyntax(at=At(source=source, line=_line(error)), reason=str(error).splitlines()[0])


def _line(error: yaml.YAMLError) -> int | None:
    mark = getattr(error, "problem_mark", None)
    return None if mark is None else mark.line + 1


def with_seed_path(
    config: Json, bound: str | None, base: str | None, seed_at: At, bound_at: At
) -> tuple[Json, Problems]:
    """The config with the path that the run file binds, or with its own seen from the folder `base`."""
    seed = seed_selection(config)
    if seed is None or (seed.path is None and bound is None):
        if bound is None:
            return config, ()
        found = "input_bindings.seed_path is given, but the config has no seed dataset"
        return config, (WrongCombination(at=bound_at, found=found, expected="leave it out, or add a seed_config"),)
    path = bound or _absolute(seed, base)
    return with_seed(config, path=path), tuple(_unreadable_seed(seed, path, seed_at))


def _absolute(seed: SeedSelection, base: str | None) -> str:
    """Relative paths are meant from the author's folder; Data Designer alone would take the working directory."""
    path = os.path.expanduser(seed.path or "")
    if seed.kind == "hf" or base is None:
        return seed.path or ""
    return os.path.normpath(os.path.join(base, path))


def _unreadable_seed(seed: SeedSelection, path: str, at: At) -> list[Problem]:
    if seed.kind == "hf":
        return []
    place = os.path.dirname(path.split("*")[0]) if "*" in path else path
    wanted = "folder" if "*" in path or seed.kind != "local" else "file"
    if not os.path.exists(place):
        return [PathUnusable(at=at, path=place, state="missing", wanted=wanted)]
    if not os.access(place, os.R_OK):
        return [PathUnusable(at=at, path=place, state="unreadable", wanted=wanted)]
    if not (os.path.isdir(place) if wanted == "folder" else os.path.isfile(place)):
        return [PathUnusable(at=at, path=place, state="of the wrong type", wanted=wanted)]
    if seed.kind == "local" and not path.lower().endswith(DATA_FILES):
        return [Malformed(at=at, found=repr(os.path.basename(path)), expected=f"a file of {', '.join(DATA_FILES)}")]
    return []
