"""What can be held against a Data Designer config without Data Designer: models that are used and not deployed.

Where the config stands in a file is a `Place`, so that everything has its line.
"""

from collections.abc import Iterator, Sequence

from core.config.place import Place
from core.designer_config import Json, inner
from core.problem import At, Problem, UnknownName
from core.suggest import nearest

_ALIAS = "model_alias"
_OWN_COLUMNS = frozenset(
    "sampler llm-text llm-code llm-structured llm-judge expression validation seed-dataset embedding image "
    "custom".split()
)
"""Columns of Data Designer itself: what is nested in them is data, such as a schema. In those of plugins it is not
known what is, and a text called model_alias means a model."""


def model_problems(config: Json, deployed: Sequence[str], place: Place, deployments: Sequence[At]) -> Iterator[Problem]:
    """Models of columns and profilers that no deployment serves, each where it is used; and deployments whose model the
    config does not declare. `deployments` says where each of `deployed` stands."""
    inside = place.into("data_designer") if inner(config) is not config else place
    for alias, at in _used(inner(config), inside):
        if alias not in deployed:
            near = nearest(alias, deployed)
            yield UnknownName(at=at, what="deployment", value=alias, known=tuple(deployed), suggestion=near)
    declared = _declared(inner(config).get("model_configs"))
    for alias, at in zip(deployed, deployments, strict=True):
        if declared is not None and alias not in declared:
            near = nearest(alias, declared)
            yield UnknownName(at=at, what="model of the config", value=alias, known=declared, suggestion=near)


def _used(config: Json, place: Place) -> Iterator[tuple[str, At]]:
    for name in ("columns", "profilers"):
        listed = config.get(name)
        for index, entry in enumerate(listed if isinstance(listed, list) else ()):
            known = name == "profilers" or (isinstance(entry, dict) and entry.get("column_type") in _OWN_COLUMNS)
            yield from _named(entry, place.item(name, index), set() if not known else None)


def _named(value: object, place: Place, seen: set[int] | None) -> Iterator[tuple[str, At]]:
    """Aliases of an entry; with `seen`, also those nested in it. YAML can make a value a part of itself."""
    if not isinstance(value, dict | list) or (seen is not None and id(value) in seen):
        return
    if isinstance(value, dict) and isinstance(alias := value.get(_ALIAS), str):
        yield alias, place.at(_ALIAS)
    if seen is None:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _named(part, place.into(str(key)), seen)
    else:
        for index, part in enumerate(value):
            yield from _named(part, place.element(index), seen)


def _declared(models: object) -> tuple[str, ...] | None:
    """Aliases of the config's own models; None without any, or when their form is for Data Designer to refuse."""
    if not isinstance(models, list) or not models:
        return None
    aliases = [model.get("alias") for model in models if isinstance(model, dict)]
    named = tuple(alias for alias in aliases if isinstance(alias, str))
    return named if len(named) == len(models) else None
