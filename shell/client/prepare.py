"""Everything that can be known about the work before a server answers, as one job or as all problems together."""

import json
import os
import traceback
from collections.abc import Iterator
from typing import NamedTuple

from data_designer.config import DataDesignerConfigBuilder, RunConfig
from data_designer.interface import DataDesigner
from pydantic import ValidationError

from core.client_spec import ClientSpec, DesignerWork
from core.designer_config import Json, inner, resume_conflict, run_config_values, with_columns, with_endpoints
from core.problem import At, ConfigUnfit, DatasetExists, NothingToResume, Problem, Problems, UnknownName
from core.suggest import nearest
from shell.client import providers, seeds
from shell.client.complaints import complaints, listen
from shell.client.config_file import load, source_of
from shell.client.misfits import problems_of


class Job(NamedTuple):
    """A Data Designer that has accepted its config."""

    designer: DataDesigner
    builder: DataDesignerConfigBuilder
    dataset_folder: str


def prepare(spec: ClientSpec, work: DesignerWork) -> Job | Problems:
    """The job, or why it cannot be done."""
    config, unreadable = load(work)
    run_config, misfits = _run_config(spec, work)
    folder = os.path.join(spec.files.output, work.invocation.dataset_name)
    early = (*unreadable, *misfits, *_folder(folder, work), *providers.missing_secrets(work.invocation.mcp_providers))
    if not config or unreadable:
        return early
    config, unshared = seeds.for_shard(config, spec)
    source = source_of(work)
    builder, wrong = _builder(with_endpoints(config, spec.endpoints, work.invocation.model_concurrency), source)
    early = (*early, *unshared, *wrong)
    if builder is None:
        return early
    early = (*early, *_aliases(builder, spec, source), *_mcp_names(builder, work, source))
    if early or run_config is None:
        return early
    designer = _designer(spec, work, run_config)
    return tuple(_refusals(designer, builder, source)) or Job(designer, builder, folder)


def _run_config(spec: ClientSpec, work: DesignerWork) -> tuple[RunConfig | None, Problems]:
    invocation, known = work.invocation, RunConfig.model_fields
    values = run_config_values(
        json.loads(invocation.run_config), known, spec.shard.records, invocation.model_concurrency
    )
    try:
        return RunConfig.model_validate(values), ()
    except ValidationError as error:
        return None, problems_of(error, "run file", "invocation.run_config", known)


def _folder(folder: str, work: DesignerWork) -> Iterator[Problem]:
    exists = os.path.isdir(folder) and bool(os.listdir(folder))
    at = At(source="run file", path="invocation.resume")
    conflict = resume_conflict(work.invocation.resume, exists)
    if conflict == "dataset-exists":
        yield DatasetExists(at=at, path=folder)
    elif conflict == "nothing-to-resume":
        yield NothingToResume(at=at, path=folder)


def _builder(config: Json, source: str) -> tuple[DataDesignerConfigBuilder | None, Problems]:
    try:
        return DataDesignerConfigBuilder.from_config(config), ()
    except ValidationError as error:
        return None, problems_of(error, source, "")
    except Exception as error:  # plugins and custom validators raise what they like
        return None, tuple(_culprits(config, error, source)) or (_unfit(error, source),)


def _culprits(config: Json, raised: Exception, source: str) -> Iterator[Problem]:
    """The columns that are refused alone as they are together: such an exception does not say which one it is about."""
    columns = inner(config).get("columns")
    for column in columns if isinstance(columns, list) else ():
        try:
            DataDesignerConfigBuilder.from_config(with_columns(config, [column]))
        except Exception as error:
            if type(error) is type(raised) and isinstance(column, dict):
                yield _unfit(error, source, f"columns.{column.get('name')}")


def _aliases(builder: DataDesignerConfigBuilder, spec: ClientSpec, source: str) -> Iterator[Problem]:
    """Models that are used need an endpoint, and endpoints a model. Other models are left out of the config."""
    served = tuple(endpoint.alias for endpoint in spec.endpoints)
    declared = tuple(model.alias for model in builder.model_configs)
    used = {alias: f"columns.{c.name}" for c in builder.get_column_configs() for alias in c.get_model_aliases()}
    for profiler in builder.get_profilers():
        if isinstance(alias := getattr(profiler, "model_alias", None), str):
            used.setdefault(alias, "profilers")
    for alias, path in used.items():
        if alias not in served:
            at = At(source=source, path=path)
            yield UnknownName(at=at, what="deployment", value=alias, known=served, suggestion=nearest(alias, served))
    for alias in served:
        if alias not in declared:
            at = At(source="run file", path="deployments")
            near = nearest(alias, declared)
            yield UnknownName(at=at, what="model of the config", value=alias, known=declared, suggestion=near)
    for alias in declared:
        if alias not in served and alias not in used:
            builder.delete_model_config(alias)


def _mcp_names(builder: DataDesignerConfigBuilder, work: DesignerWork, source: str) -> Iterator[Problem]:
    known = tuple(provider.name for provider in work.invocation.mcp_providers)
    for tool in builder.tool_configs:
        for name in tool.providers:
            if name not in known:
                at = At(source=source, path=f"tool_configs.{tool.tool_alias}.providers")
                near = nearest(name, known)
                yield UnknownName(at=at, what="MCP provider of the run file", value=name, known=known, suggestion=near)


def _designer(spec: ClientSpec, work: DesignerWork, run_config: RunConfig) -> DataDesigner:
    designer = DataDesigner(
        artifact_path=spec.files.output,
        model_providers=providers.model_providers(spec),
        managed_assets_path=work.invocation.input_bindings.managed_assets_path,
        mcp_providers=providers.mcp_providers(work.invocation.mcp_providers),
    )
    designer.set_run_config(run_config)
    return designer


def _refusals(designer: DataDesigner, builder: DataDesignerConfigBuilder, source: str) -> Iterator[Problem]:
    """All that Data Designer has against the config, in its words."""
    raised, printed = listen(lambda: designer.validate(builder))
    if raised is None:
        return
    found = tuple(complaints(printed))
    for said in found:
        at = At(source=source, path=f"columns.{said.column}" if said.column else "")
        yield ConfigUnfit(at=at, reason=f"{said.kind}: {said.text}")
    if not found:
        yield _unfit(raised, source)


def _unfit(error: Exception, source: str, path: str = "") -> Problem:
    traceback.print_exception(error)
    text = " ".join(str(error).split())
    return ConfigUnfit(at=At(source=source, path=path), reason=f"{type(error).__name__}: {text[:600]}")
