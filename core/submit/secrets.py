"""Which variables of the submitter's environment a run needs, since secrets travel by name only."""

from collections.abc import Iterator, Mapping

from core.config.run_config import EnvEntry, SecretRef, StdioMcp
from core.plan.model import DataDesignerClient, RunPlan
from core.problem import At, SecretNotSet


def unset_secrets(plan: RunPlan, environ: Mapping[str, str]) -> Iterator[SecretNotSet]:
    """Every reference to a variable that is not set where the run is submitted."""
    for path, name in _references(plan):
        if name not in environ:
            yield SecretNotSet(at=At(source="run file", path=path), name=name)


def _references(plan: RunPlan) -> Iterator[tuple[str, str]]:
    for index, deployment in enumerate(plan.deployments):
        yield from _of_entries(f"deployments[{index}].server.environment", deployment.server.environment)
    for index, provider in enumerate(plan.invocation.mcp_providers):
        path = f"invocation.mcp_providers[{index}]"
        if isinstance(provider, StdioMcp):
            yield from _of_entries(f"{path}.environment", provider.environment)
        elif provider.api_key is not None:
            yield f"{path}.api_key", provider.api_key.environment
    if isinstance(plan.client, DataDesignerClient) and plan.client.dependencies is not None:
        for credential in plan.client.dependencies.index_credentials:
            yield f"client.dependencies.index_credentials.{credential.name}", credential.value.environment


def _of_entries(path: str, entries: tuple[EnvEntry, ...]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if isinstance(entry.value, SecretRef):
            yield f"{path}.{entry.name}", entry.value.environment
