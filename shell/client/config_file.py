"""The copied Data Designer config, in YAML or JSON, as plain values with seed paths that can be found."""

import json
import os
from typing import cast

import yaml

from core.client_spec import DesignerWork
from core.designer_config import Json, SeedSelection, inner, seed_selection, with_seed
from core.problem import At, BadSyntax, Malformed, PathUnusable, Problem, Problems, Unreadable, WrongCombination

DATA_FILES = (".parquet", ".csv", ".json", ".jsonl")


def load(work: DesignerWork) -> tuple[Json, Problems]:
    """The config with its seed path made absolute or replaced; empty when it cannot be read."""
    at = At(source=source_of(work))
    try:
        with open(work.builder, encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        return {}, (Unreadable(at=at, reason=str(error)),)
    config = _decode(text, at.source)
    if isinstance(config, BadSyntax):
        return {}, (config,)
    if not isinstance(config, dict) or not isinstance(inner(config).get("columns"), list):
        expected = "a Data Designer config: {data_designer: {…}} or {columns: […], …}"
        return {}, (Malformed(at=at, found=type(config).__name__, expected=expected),)
    return _with_seed_path(cast(Json, config), work, at)


def source_of(work: DesignerWork) -> str:
    """What the author calls the config."""
    return os.path.basename(work.source or work.builder)


def _decode(text: str, source: str) -> object:
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


def _with_seed_path(config: Json, work: DesignerWork, at: At) -> tuple[Json, Problems]:
    bound = work.invocation.input_bindings.seed_path
    seed = seed_selection(config)
    if seed is None or (seed.path is None and bound is None):
        if bound is None:
            return config, ()
        found = "input_bindings.seed_path is given, but the config has no seed dataset"
        where = At(source="run file", path="invocation.input_bindings.seed_path")
        return config, (WrongCombination(at=where, found=found, expected="leave it out, or add a seed_config"),)
    path = bound or _absolute(seed, work.base_folder)
    wanted = At(source=at.source, path="seed_config.source.path")
    return with_seed(config, path=path), tuple(_unreadable_seed(seed, path, wanted))


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
