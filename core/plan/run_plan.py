"""The one place where the stages of planning are put together: what was authored → what is asked of Slurm."""

from collections.abc import Iterator, Sequence

from returns.result import Result, Success

from core.config.durations import duration_ms
from core.config.located import Located
from core.config.profile import Profile
from core.config.rates import bytes_per_second
from core.config.run_config import Deployment, Invocation, RunConfig, Server
from core.outcome import Outcome, both, collect, refuse, unless
from core.plan.budget import Spent, spend
from core.plan.contained import unsayable
from core.plan.model import (
    AllocationRequest,
    ClientPlan,
    CommandClient,
    ContainerRuntime,
    DataDesignerClient,
    DeploymentPlan,
    RunPlan,
    ServerPlan,
    SitePlan,
)
from core.plan.paths import is_path, map_path
from core.plan.room import port_problems
from core.plan.topology import Placement, gpus_on_slots, place, slots_needed
from core.problem import At, MissingField, UnknownName
from core.suggest import nearest
from core.units import Alias
from core.vllm.executor import choose_executor
from core.vllm.versions import VllmVersion

SCHEMA_VERSION = 1


def plan_run(run: Located[RunConfig], cluster: str, profile: Profile, ports_at: At | None = None) -> Outcome[RunPlan]:
    """Everything that can be decided without a grant. `ports_at` is where the profile gives its range of ports.

    Errors: all problems of placement, executors, images and paths, of all deployments together; then of containers and
    ports together.
    """
    where = ports_at or At(source=f"cluster {cluster}", path="ports.range")
    gpus = None if profile.gpus_per_node == "auto" else profile.gpus_per_node
    return Result.do(
        plan
        for spent in _budgeted(run, gpus)
        for placements in place(spent.deployments, gpus, _places(run))
        for servers in _servers(run, spent, placements, profile)
        for plan in _possible(
            _assemble(run.value, _site(run.value, cluster, profile), profile, spent, placements, servers), run, where
        )
    )


def _possible(plan: RunPlan, run: Located[RunConfig], ports_at: At) -> Outcome[RunPlan]:
    images_at = [run.at(f"deployments[{index}].server.image") for index in range(len(plan.deployments))]
    return unless((*unsayable(plan, images_at), *port_problems(plan, ports_at)), plan)


def _places(run: Located[RunConfig]) -> tuple[At, ...]:
    return tuple(run.at(f"deployments[{index}].topology") for index in range(len(run.value.deployments)))


def _budgeted(run: Located[RunConfig], gpus: int | None) -> Outcome[Spent]:
    config = run.value
    if config.gpu_budget is None:
        return Success(Spent(deployments=config.deployments, notes=()))
    return spend(config.deployments, config.gpu_budget, gpus, run.at("gpu_budget"))


def _servers(
    run: Located[RunConfig], spent: Spent, placements: Sequence[Placement], profile: Profile
) -> Outcome[tuple[ServerPlan, ...]]:
    container = container_runtime(run.value, profile)
    return collect(
        _server(deployment, placement, container, profile, run, f"deployments[{index}]")
        for index, (deployment, placement) in enumerate(zip(spent.deployments, placements, strict=True))
    )


def container_runtime(config: RunConfig, profile: Profile) -> ContainerRuntime:
    """What the profile says; when it says nothing, Pyxis as soon as a deployment names an image."""
    if profile.container is not None:
        return profile.container
    return "pyxis" if any(deployment.server.image for deployment in config.deployments) else "none"


def _server(
    deployment: Deployment,
    placement: Placement,
    container: ContainerRuntime,
    profile: Profile,
    run: Located[RunConfig],
    path: str,
) -> Outcome[ServerPlan]:
    image = _image(deployment.server, container, profile, run.at(f"{path}.server.image"))
    model = _model(deployment, container, profile, run.at(f"{path}.model"))
    version = _version(deployment.server, profile)
    asked = deployment.server.executor
    executor = choose_executor(placement.parallel, asked, VllmVersion(text=version), run.at(f"{path}.server.executor"))
    server = deployment.server
    return both(both(image, model), executor).map(
        lambda found: ServerPlan(
            executor=found[1],
            vllm_version=version,
            image=found[0][0],
            executable=server.executable or "vllm",
            model=found[0][1],
            startup_timeout_ms=duration_ms(server.startup_timeout),
            distributed_init_timeout_ms=duration_ms(server.distributed_init_timeout),
            standoff_ms=duration_ms(server.lead_boot_standoff),
            stagger_ms=duration_ms(server.rank_launch_stagger),
            readiness_path=server.readiness_path,
            backpressure=server.queue_backpressure,
            extra_args=(*_plugin(server), *server.extra_args),
            environment=server.environment,
        )
    )


def _plugin(server: Server) -> Iterator[str]:
    if server.io_processor_plugin is not None:
        yield f"--io-processor-plugin={server.io_processor_plugin}"


def _version(server: Server, profile: Profile) -> str | None:
    known = {image.name: image.value.vllm_version for image in profile.images}
    named = known.get(server.image.name) if server.image and server.image.name else None
    return server.vllm_version or named


def _image(server: Server, container: ContainerRuntime, profile: Profile, at: At) -> Outcome[str | None]:
    if container == "none":
        return Success(None)
    if server.image is None:
        reason = f"the profile's container is {container}"
        if profile.container is None:
            reason = "another deployment names an image, so that all servers run in containers"
        return refuse(MissingField(at=at, field="image", reason=reason))
    if server.image.path is not None:
        return Success(server.image.path)
    images = {image.name: image.value.path or image.value.uri for image in profile.images}
    name = server.image.name or ""
    if name not in images:
        return refuse(
            UnknownName(
                at=At(source=at.source, path=f"{at.path}.name", line=at.line),
                what="image of the profile",
                value=name,
                known=tuple(images),
                suggestion=nearest(name, images),
            )
        )
    return Success(images[name])


def _model(deployment: Deployment, container: ContainerRuntime, profile: Profile, at: At) -> Outcome[str]:
    if container == "none" or not is_path(deployment.model):
        return Success(deployment.model)
    return map_path(deployment.model, profile.container_mounts, at)


def _site(config: RunConfig, cluster: str, profile: Profile) -> SitePlan:
    return SitePlan(
        cluster=cluster,
        workspace_root=profile.workspace_root,
        container=container_runtime(config, profile),
        mounts=profile.container_mounts,
        interface=profile.network.interface,
        ports=profile.ports.range if profile.ports else None,
        slurm_version=profile.slurm_version,
        slurm_bin=profile.scheduler.bin_path,
        srun_extra_args=profile.srun_extra_args,
        storage_read_rate=bytes_per_second(profile.storage_read_rate),
    )


def _assemble(
    config: RunConfig,
    site: SitePlan,
    profile: Profile,
    spent: Spent,
    placements: Sequence[Placement],
    servers: Sequence[ServerPlan],
) -> RunPlan:
    return RunPlan(
        schema_version=SCHEMA_VERSION,
        name=config.name,
        site=site,
        request=_request(config, profile, placements),
        deployments=tuple(
            DeploymentPlan(
                alias=Alias(deployment.model_alias),
                served_name=deployment.served_name,
                placement=placement,
                server=server,
                on_failure=deployment.on_failure,
                min_ready_replicas=deployment.min_ready_replicas,
            )
            for deployment, placement, server in zip(spent.deployments, placements, servers, strict=True)
        ),
        client=_client(config),
        invocation=config.invocation or Invocation(num_records=1),
        output=config.output,
        on_time_limit=config.on_time_limit,
        notes=(*spent.notes, *_notes(spent.deployments, placements)),
    )


def _client(config: RunConfig) -> ClientPlan:
    if config.client.command is not None:
        return CommandClient(command=config.client.command)
    builder = config.builder
    return DataDesignerClient(
        source=builder.source if builder else None,
        inline=builder.inline if builder else None,
        dependencies=config.client.dependencies,
    )


def _request(config: RunConfig, profile: Profile, placements: Sequence[Placement]) -> AllocationRequest:
    partition = config.submission.partition or profile.scheduler.partition or ()
    count = config.array_tasks.count
    gpus = _gpus_to_request(profile, placements, config.gpu_budget is not None)
    return AllocationRequest(
        nodes=slots_needed(placements),
        gpus_per_node=None if profile.gpu_request_mode == "visible" else gpus,
        mem_per_gpu=None if profile.gpu_request_mode == "visible" else profile.scheduler.mem_per_gpu,
        account=config.submission.account or profile.scheduler.account,
        partitions=tuple(partition.split(",")) if isinstance(partition, str) else partition,
        job_name=config.submission.job_name,
        time_limit=config.submission.time_limit,
        comment=config.submission.comment,
        client_cpus=config.client.cpus,
        array_count=count,
        max_concurrent=config.array_tasks.max_concurrent or count,
    )


def _gpus_to_request(profile: Profile, placements: Sequence[Placement], budgeted: bool) -> int:
    """All GPUs of a node. Of a budget no more than is planned; with `auto` as many as the largest replica needs there,
    since GRES wants a number."""
    if profile.gpus_per_node != "auto" and not budgeted:
        return profile.gpus_per_node
    return max(gpus_on_slots(placements))


def _notes(deployments: Sequence[Deployment], placements: Sequence[Placement]) -> Iterator[str]:
    for deployment, placement in zip(deployments, placements, strict=True):
        alias, parallel = deployment.model_alias, placement.parallel
        if deployment.topology.data_parallel > 1 and parallel.data == 1:
            yield f"{alias}: data parallel of a dense model is planned as independent replicas"
        if parallel.data > 1:
            reason = {
                "internal": "one API per group, balanced by the engine core",
                "hybrid": "one API per node, balanced over nodes by the endpoint",
                "external": "one API per rank, balanced by the endpoint",
            }[parallel.load_balancing]
            yield f"{alias}: data-parallel load balancing is {parallel.load_balancing} ({reason})"
        if placement.gpus_per_node is None:
            yield f"{alias}: GPUs per node are counted on the nodes; replicas follow from what is found"
        if placement.gpus_per_node == 0:
            yield f"{alias}: no GPUs: one replica per {parallel.nodes} node{'s' * (parallel.nodes > 1)}, on CPUs"
