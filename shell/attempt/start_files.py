"""What endpoints and the client of an attempt are told at their start, as files."""

import msgspec

from core.client_spec import ModelEndpoint, client_files, client_spec
from core.codec import canonical_json
from core.endpoint_spec import EndpointSpec
from core.layout import AttemptPaths
from core.plan.bound import BoundPlan
from core.plan.model import RunPlan
from core.plan.shards import Shard
from core.plan.steps import url_of
from core.resume import Mode
from shell.store import write_atomic
from shell.submission.runs import RunRecord


def write_start_files(
    record: RunRecord,
    plan: RunPlan,
    shard: Shard,
    builder: str,
    paths: AttemptPaths,
    bound: BoundPlan,
    resume: Mode | None,
) -> None:
    """One file per endpoint, and one for the client. `resume` is for an output that was taken over."""
    _write_endpoints(plan, paths, bound)
    invocation = plan.invocation
    if resume is not None:
        invocation = msgspec.structs.replace(invocation, resume=resume)
    spec = client_spec(
        msgspec.structs.replace(plan, invocation=invocation),
        shard,
        _endpoints(plan, paths, bound),
        client_files(paths),
        builder=builder,
        base_folder=record.base_folder,
    )
    write_atomic(paths.client, canonical_json(spec))


def _write_endpoints(plan: RunPlan, paths: AttemptPaths, bound: BoundPlan) -> None:
    by_alias = {deployment.alias: deployment for deployment in plan.deployments}
    for endpoint in bound.endpoints:
        limits = by_alias[endpoint.alias].server.backpressure
        spec = EndpointSpec(
            alias=endpoint.alias,
            served_name=by_alias[endpoint.alias].served_name,
            address=endpoint.address,
            port=endpoint.port,
            client_token_file=paths.client_token,
            server_token_file=paths.server_token,
            max_waiting=limits.max_waiting_requests if limits else None,
            retry_after_seconds=(limits.retry_after_seconds if limits else None) or 1,
        )
        write_atomic(paths.endpoint(endpoint.alias), canonical_json(spec))


def _endpoints(plan: RunPlan, paths: AttemptPaths, bound: BoundPlan) -> tuple[ModelEndpoint, ...]:
    names = {deployment.alias: deployment.served_name for deployment in plan.deployments}
    return tuple(
        ModelEndpoint(
            alias=endpoint.alias,
            base_url=f"{url_of(endpoint.address, endpoint.port)}/v1",
            model=names[endpoint.alias],
            token_file=paths.client_token,
        )
        for endpoint in bound.endpoints
    )
