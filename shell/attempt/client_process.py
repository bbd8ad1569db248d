"""The environment of processes on the client's host: client and endpoints."""

import os

from core.plan.process_env import inherited_variables, join_path, no_proxy_with


def client_environment(bundle: str) -> dict[str, str]:
    """That of the controller, without what belongs to one step or to servers; our packages first, loopback direct."""
    inherited = inherited_variables(os.environ)
    direct = no_proxy_with(inherited, ())
    return inherited | {
        "PYTHONPATH": join_path(bundle, inherited.get("PYTHONPATH", "")),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }
