"""Rules about the client: what it runs, what it is asked to make, what it needs."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from core.config.place import Place
from core.config.run_config import Dependencies, HttpMcp, ImageRef, McpProvider, RunConfig, SseMcp, StdioMcp
from core.config.secrets import secret_fields
from core.config.server_rules import command_problems, environment_problems, image_problems
from core.problem import Malformed, MissingField, NotUnique, Problem, SecretLiteral, UnknownName, WrongCombination
from core.suggest import nearest

_CONFIG_FILE = re.compile(r"(?!.*://).*\.(json|ya?ml)", re.IGNORECASE)


def client_problems(config: RunConfig, place: Place) -> Iterator[Problem]:
    """Everything about the client side of a run."""
    yield from _one_client(config, place)
    if config.builder is not None:
        yield from _builder(config.builder.source, config.builder.inline, place.into("builder"))
    if config.client.command is not None:
        yield from command_problems(config.client.command, place.into("client"), "command")
    if isinstance(config.client.image, ImageRef):
        yield from image_problems(config.client.image, place.into("client.image"))
    if config.client.dependencies is not None:
        yield from _dependencies(config.client.dependencies, place.into("client.dependencies"))
    yield from _invocation(config, place)


def _one_client(config: RunConfig, place: Place) -> Iterator[Problem]:
    """Data Designer with one config, or one command."""
    if not place.sound("builder", "client.command"):
        return
    builder = config.builder
    ways = {
        "builder.source": builder is not None and builder.source is not None,
        "builder.inline": builder is not None and builder.inline is not None,
        "client.command": config.client.command is not None,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) != 1:
        where = "builder" if builder is not None or not given else "client.command"
        found = f"{' and '.join(given)} are given" if given else "nothing says what the client runs"
        expected = f"{'keep' if given else 'give'} one of builder.source, builder.inline and client.command"
        yield WrongCombination(at=place.at(where), found=found, expected=expected)


def _builder(source: str | None, inline: str | None, place: Place) -> Iterator[Problem]:
    if source is not None and place.sound("source") and not _is_config_path(source):
        expected = "the path of a .json, .yaml or .yml file beside or below the run file, without '..' and no URL"
        yield Malformed(at=place.at("source"), found=repr(source[:60]), expected=expected)
    if inline is not None and place.sound("inline"):
        decoded: object = msgspec.json.decode(inline)
        wrong = _unlike_a_config(decoded)
        if wrong:
            expected = "a whole Data Designer config: {data_designer: {…}} or {columns: […], …}"
            yield Malformed(at=place.at("inline"), found=wrong, expected=expected)
        for path, name in secret_fields(decoded):
            yield SecretLiteral(at=place.at(f"inline.{path}"), name=name)


def _is_config_path(path: str) -> bool:
    return _CONFIG_FILE.fullmatch(path) is not None and ".." not in path.split("/")


def _unlike_a_config(value: object) -> str:
    """What keeps a value from being a whole Data Designer config; empty when nothing does."""
    if not isinstance(value, dict):
        return "something that is no mapping"
    if "data_designer" not in value:
        return "" if isinstance(value.get("columns"), list) else "a mapping without a list of columns"
    version = value.get("library_version")
    if set(value) - {"data_designer", "library_version"}:
        return "other fields beside data_designer and library_version"
    if not isinstance(value["data_designer"], dict) or not (version is None or isinstance(version, str)):
        return "a data_designer that is no mapping, or a library_version that is no text"
    return ""


def _invocation(config: RunConfig, place: Place) -> Iterator[Problem]:
    invocation = config.invocation
    if invocation is None:
        if place.sound("invocation", "client.command") and config.client.command is None:
            yield MissingField(at=place.at(), field="invocation")
        return
    inside = place.into("invocation")
    if inside.sound("run_config") and not invocation.run_config.startswith("{"):
        expected = "a mapping of Data Designer's run settings (name: value)"
        yield Malformed(at=inside.at("run_config"), found=invocation.run_config[:60], expected=expected)
    yield from _unique_names(invocation.mcp_providers, inside)
    for index, provider in enumerate(invocation.mcp_providers):
        yield from _mcp(provider, inside.item("mcp_providers", index))
    aliases = [place.item("deployments", index).sound("model_alias") for index in range(len(config.deployments))]
    if aliases and all(aliases):
        yield from _concurrency(config, inside)


def _concurrency(config: RunConfig, place: Place) -> Iterator[Problem]:
    """Only for models that the run declares: its deployments, and what an inline config names."""
    known = tuple(dict.fromkeys((*(d.model_alias for d in config.deployments), *_inline_aliases(config))))
    for entry in config.invocation.model_concurrency if config.invocation else ():
        if entry.name not in known and place.sound(f"model_concurrency.{entry.name}"):
            yield UnknownName(
                at=place.at(f"model_concurrency.{entry.name}"),
                what="model alias",
                value=entry.name,
                known=known,
                suggestion=nearest(entry.name, known),
            )


def _inline_aliases(config: RunConfig) -> Iterator[str]:
    decoded: object = msgspec.json.decode(config.builder.inline) if config.builder and config.builder.inline else None
    whole = decoded.get("data_designer", decoded) if isinstance(decoded, dict) else None
    models = whole.get("model_configs") if isinstance(whole, dict) else None
    for model in models if isinstance(models, list) else ():
        if isinstance(model, dict) and isinstance(model.get("alias"), str):
            yield model["alias"]


def _unique_names(providers: Sequence[McpProvider], place: Place) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, provider in enumerate(providers):
        if place.item("mcp_providers", index).sound("name"):
            earlier = first.setdefault(provider.name, index)
            if earlier != index:
                yield NotUnique(
                    at=place.item("mcp_providers", index).at("name"),
                    what="name of an MCP provider",
                    value=provider.name,
                    first_path=place.item("mcp_providers", earlier).path,
                )


def _mcp(provider: McpProvider, place: Place) -> Iterator[Problem]:
    if isinstance(provider, StdioMcp):
        yield from command_problems(provider.args, place, "args")
        yield from environment_problems(provider.environment, place.into("environment"))
    elif place.sound("endpoint"):
        yield from _endpoint(provider, place)


def _endpoint(provider: SseMcp | HttpMcp, place: Place) -> Iterator[Problem]:
    expected = "an address such as https://tools.example.org/mcp without password, query and fragment"
    try:
        parts = urlsplit(provider.endpoint)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        yield Malformed(at=place.at("endpoint"), found="something that is no address", expected=expected)
        return
    if parts.username is not None or parts.password is not None:
        yield SecretLiteral(at=place.at("endpoint"), name="the password in the address")
    elif not valid or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f\x7f]", provider.endpoint):
        shown = repr(provider.endpoint.partition("?")[0][:60])
        yield Malformed(at=place.at("endpoint"), found=shown, expected=expected)


def _dependencies(dependencies: Dependencies, place: Place) -> Iterator[Problem]:
    if dependencies.lock_file is not None and place.sound("lock_file", "requirements"):
        if dependencies.requirements:
            found, expected = "requirements and a lock_file are given", "keep one of requirements and lock_file"
            yield WrongCombination(at=place.at("lock_file"), found=found, expected=expected)
        lock = dependencies.lock_file
        if not lock.endswith(".json") or "://" in lock or ".." in lock.split("/"):
            expected = "the path of a .json file, without '..' and no URL"
            yield Malformed(at=place.at("lock_file"), found=repr(lock[:60]), expected=expected)
    first: dict[str, int] = {}
    for index, text in enumerate(dependencies.requirements or ()):
        spot = place.item("requirements", index)
        if not spot.sound():
            continue
        found_wrong, name = _requirement(text)
        if found_wrong:
            yield Malformed(at=spot.at(), found=found_wrong, expected=_REQUIREMENT)
        elif first.setdefault(name, index) != index:
            first_path = place.item("requirements", first[name]).path
            yield NotUnique(at=spot.at(), what="package", value=name, first_path=first_path)


_REQUIREMENT = "a package such as 'pandas>=2', or a wheel as 'name @ https://…/x.whl#sha256=…'"


def _requirement(text: str) -> tuple[str, str]:
    """What is wrong, empty when nothing is, and the normalised name."""
    try:
        requirement = Requirement(text)
    except (InvalidRequirement, RecursionError):
        shown = "an address" if "://" in text else repr(text[:60])
        return f"{shown}, which is not a requirement", ""
    name = canonicalize_name(requirement.name)
    if requirement.marker is not None:
        return f"{name!r} with a condition (;), which cannot be judged here", name
    if requirement.url is not None and not _is_pinned_wheel(requirement.url):
        return f"{name!r} from an address that is not an https wheel with its sha256", name
    return "", name


def _is_pinned_wheel(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme == "https"
        and bool(parts.hostname)
        and parts.username is None
        and not parts.query
        and parts.path.endswith(".whl")
        and re.fullmatch(r"sha256=[0-9a-f]{64}", parts.fragment) is not None
    )
