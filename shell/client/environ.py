"""The environment that Data Designer or another program is given. Everything here is set before they are imported."""

import os
from urllib.parse import urlsplit

from core.client_spec import ClientSpec, ModelEndpoint


def prepare(spec: ClientSpec) -> None:
    """No proxy between us and the endpoints, no shared settings folder, and no reports to outside without consent."""
    hosts = {urlsplit(endpoint.base_url).hostname or "" for endpoint in spec.endpoints}
    for name in ("NO_PROXY", "no_proxy"):
        before = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*before, *sorted(hosts - set(before))])
    os.environ.setdefault("NEMO_TELEMETRY_ENABLED", "false")
    _private_home(os.path.dirname(spec.files.prepared))


def _private_home(folder: str) -> None:
    """Data Designer writes defaults into its home at every start; clients on many nodes would write over each other."""
    if "DATA_DESIGNER_HOME" not in os.environ:
        shared = os.path.expanduser("~/.data-designer/managed-assets")
        os.environ.setdefault("DATA_DESIGNER_MANAGED_ASSETS_PATH", shared)
        os.environ["DATA_DESIGNER_HOME"] = os.path.join(folder, "data-designer-home")


def token(endpoint: ModelEndpoint) -> str | None:
    """The bearer token, read from its file."""
    if endpoint.token_file is None:
        return None
    with open(endpoint.token_file, encoding="ascii") as file:
        return file.read().strip()
