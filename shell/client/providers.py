"""Model and MCP providers from the start file. Secrets go by the name of an environment variable of this process."""

import os
from collections.abc import Iterable, Iterator

from data_designer.config import LocalStdioMCPProvider, MCPProvider, ModelProvider

from core.client_spec import ClientSpec
from core.config.run_config import EnvEntry, LiteralValue, McpProvider, SecretRef, StdioMcp
from core.designer_config import provider_name
from core.problem import At, MissingField, Problem
from shell.client.environ import token


def model_providers(spec: ClientSpec) -> list[ModelProvider]:
    """One provider per endpoint."""
    return [
        ModelProvider(
            name=provider_name(endpoint.alias),
            endpoint=endpoint.base_url,
            provider_type="openai",
            api_key=_as_variable(index, token(endpoint)),
        )
        for index, endpoint in enumerate(spec.endpoints)
    ]


def _as_variable(index: int, secret: str | None) -> str | None:
    """Data Designer takes the name of a variable for a key, so that the key itself is in none of its objects."""
    if secret is None:
        return None
    name = f"DD_SLURM_TOKEN_{index}"
    os.environ[name] = secret
    return name


def missing_secrets(providers: Iterable[McpProvider]) -> Iterator[Problem]:
    """Variables that MCP providers need and that are not set here."""
    for index, provider in enumerate(providers):
        for name in _secrets(provider):
            if name not in os.environ:
                at = At(source="environment of the client", path=f"invocation.mcp_providers[{index}]")
                yield MissingField(at=at, field=name)


def _secrets(provider: McpProvider) -> Iterator[str]:
    if isinstance(provider, StdioMcp):
        yield from (entry.value.environment for entry in provider.environment if isinstance(entry.value, SecretRef))
    elif provider.api_key is not None:
        yield provider.api_key.environment


def mcp_providers(providers: Iterable[McpProvider]) -> list[MCPProvider | LocalStdioMCPProvider]:
    """Data Designer's form of the run file's MCP providers."""
    return [_mcp_provider(provider) for provider in providers]


def _mcp_provider(provider: McpProvider) -> MCPProvider | LocalStdioMCPProvider:
    if isinstance(provider, StdioMcp):
        return LocalStdioMCPProvider(
            name=provider.name,
            command=provider.command,
            args=list(provider.args),
            env={entry.name: _value(entry) for entry in provider.environment},
        )
    return MCPProvider(
        provider_type=str(provider.__struct_config__.tag),
        name=provider.name,
        endpoint=provider.endpoint,
        api_key=provider.api_key.environment if provider.api_key else None,
    )


def _value(entry: EnvEntry) -> str:
    return entry.value.value if isinstance(entry.value, LiteralValue) else os.environ[entry.value.environment]
