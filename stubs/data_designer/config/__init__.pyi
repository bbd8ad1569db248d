# What dd-slurm uses of Data Designer's public API, as it stands in 0.9.7 and in 1.0.0rc1.
from typing import Any, ClassVar

from typing_extensions import Self

class _Model:
    model_fields: ClassVar[dict[str, Any]]
    @classmethod
    def model_validate(cls, obj: object) -> Self: ...

class RunConfig(_Model):
    buffer_size: int

class ResumeMode:
    value: str
    def __init__(self, value: str) -> None: ...

class ModelConfig(_Model):
    alias: str

class ModelProvider(_Model):
    def __init__(self, *, name: str, endpoint: str, provider_type: str = ..., api_key: str | None = ...) -> None: ...

class MCPProvider(_Model):
    def __init__(self, *, provider_type: str, name: str, endpoint: str, api_key: str | None = ...) -> None: ...

class LocalStdioMCPProvider(_Model):
    def __init__(self, *, name: str, command: str, args: list[str] = ..., env: dict[str, str] = ...) -> None: ...

class ToolConfig(_Model):
    tool_alias: str
    providers: list[str]

class _ColumnConfig(_Model):
    name: str
    def get_model_aliases(self) -> list[str]: ...

class DataDesignerConfigBuilder:
    @classmethod
    def from_config(cls, config: dict[str, object]) -> Self: ...
    @property
    def model_configs(self) -> list[ModelConfig]: ...
    @property
    def tool_configs(self) -> list[ToolConfig]: ...
    def delete_model_config(self, alias: str) -> Self: ...
    def get_column_configs(self) -> list[_ColumnConfig]: ...
    def get_profilers(self) -> list[_Model]: ...
