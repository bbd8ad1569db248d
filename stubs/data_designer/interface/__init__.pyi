# What dd-slurm uses of Data Designer's public API, as it stands in 0.9.7 and in 1.0.0rc1.
from collections.abc import Callable, Sequence
from pathlib import Path

from data_designer.config import (
    DataDesignerConfigBuilder,
    LocalStdioMCPProvider,
    MCPProvider,
    ModelProvider,
    ResumeMode,
    RunConfig,
)
from data_designer.errors import DataDesignerError

class DataDesignerGenerationError(DataDesignerError): ...
class DataDesignerEarlyShutdownError(DataDesignerGenerationError): ...
class DataDesignerProfilingError(DataDesignerError): ...

class _ArtifactStorage:
    base_dataset_path: Path
    resume: ResumeMode

class DatasetCreationResults:
    artifact_storage: _ArtifactStorage
    def count_records(self) -> int: ...

class DataDesigner:
    def __init__(
        self,
        artifact_path: Path | str | None = ...,
        *,
        model_providers: list[ModelProvider] | None = ...,
        managed_assets_path: Path | str | None = ...,
        mcp_providers: Sequence[MCPProvider | LocalStdioMCPProvider] | None = ...,
    ) -> None: ...
    def set_run_config(self, run_config: RunConfig) -> None: ...
    def validate(self, config_builder: DataDesignerConfigBuilder) -> None: ...
    def create(
        self,
        config_builder: DataDesignerConfigBuilder,
        *,
        num_records: int = ...,
        dataset_name: str = ...,
        resume: ResumeMode = ...,
        on_batch_complete: Callable[[Path], None] | None = ...,
    ) -> DatasetCreationResults: ...
