"""Arguments and variables that all processes of a deployment share."""

from collections.abc import Iterator

from core.config.run_config import LiteralValue
from core.plan.bound import EnvItem, EnvSecret, EnvVar
from core.plan.model import DeploymentPlan
from core.vllm.versions import VllmVersion

SERVER_TOKEN = "DD_SLURM_SERVER_TOKEN"
"""Where a node worker finds the token that its servers demand."""


def common_arguments(deployment: DeploymentPlan, found_version: str | None) -> tuple[str, ...]:
    """Flags that do not differ between processes; the author's own ones last, in their order."""
    return (*_planned(deployment, found_version), *deployment.server.extra_args)


def _planned(deployment: DeploymentPlan, found_version: str | None) -> Iterator[str]:
    server, parallel = deployment.server, deployment.placement.parallel
    text = server.vllm_version or found_version
    yield f"--distributed-executor-backend={server.executor}"
    if parallel.world > 1 and text is not None and VllmVersion(text=text).has("distributed-timeout"):
        yield f"--distributed-timeout-seconds={server.distributed_init_timeout_ms // 1000}"


def common_environment(deployment: DeploymentPlan) -> tuple[EnvItem, ...]:
    """The author's variables, and the token that the server demands from its clients."""
    authored: tuple[EnvItem, ...] = tuple(
        EnvVar(name=entry.name, value=entry.value.value)
        if isinstance(entry.value, LiteralValue)
        else EnvSecret(name=entry.name, environment=entry.value.environment)
        for entry in deployment.server.environment
    )
    return (*authored, EnvSecret(name="VLLM_API_KEY", environment=SERVER_TOKEN))
