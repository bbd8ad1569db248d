"""Rules about one server: its waits, image, arguments and environment."""

from collections.abc import Iterator, Sequence

import msgspec
from packaging.version import InvalidVersion, Version

from core.config.durations import duration_ms
from core.config.flags import VLLM, Owned, bare_name, flag_name, misplaced_words, owner
from core.config.place import Place
from core.config.run_config import EnvEntry, ImageRef, LiteralValue, Server
from core.config.secrets import is_harmless, is_secret_name, is_secret_value, secret_fields, secret_words
from core.problem import Malformed, NotUnique, OwnedByPlanner, Problem, SecretLiteral, WrongCombination

_OWNED_NAMES = {
    "CUDA_VISIBLE_DEVICES": "resources.gpu_start_index",
    "ROCR_VISIBLE_DEVICES": "resources.gpu_start_index",
    "HIP_VISIBLE_DEVICES": "resources.gpu_start_index",
    "NVIDIA_VISIBLE_DEVICES": "resources.gpu_start_index",
    "ZE_AFFINITY_MASK": "resources.gpu_start_index",
    "GPU_DEVICE_ORDINAL": "resources.gpu_start_index",
    "RANK": None,
    "LOCAL_RANK": None,
    "GROUP_RANK": None,
    "NODE_RANK": None,
    "WORLD_SIZE": None,
    "LOCAL_WORLD_SIZE": None,
    "VLLM_PORT": "ports.range of the profile",
    "VLLM_HOST_IP": "network.interface of the profile",
    "VLLM_LOOPBACK_IP": None,
    "VLLM_API_KEY": None,
    "VLLM_CACHE_ROOT": None,
    "VLLM_RPC_BASE_PATH": None,
}
_OWNED_BEGINNINGS = ("MASTER_", "SLURM_", "SLURMD_", "SRUN_", "SBATCH_", "PMI_", "PMIX_", "TORCHELASTIC_", "VLLM_DP_")
_OURS, _FOR_THE_STAND_IN = "DD_SLURM_", "DD_SLURM_SIMULATE"


def server_problems(server: Server, place: Place) -> Iterator[Problem]:
    """Everything about one server that its fields' types cannot say."""
    yield from waits_in_order(server, place)
    if server.image is not None and place.sound("image"):
        yield from image_problems(server.image, place.into("image"))
    yield from argument_problems(server.extra_args, place, "extra_args", VLLM)
    yield from environment_problems(server.environment, place.into("environment"))
    yield from _owned_variables(server.environment, place.into("environment"))
    if server.vllm_version is not None and place.sound("vllm_version"):
        yield from version_problems(server.vllm_version, place, "vllm_version")


def waits_in_order(server: Server, place: Place) -> Iterator[Problem]:
    """Meeting of the ranks is a part of the start-up."""
    startup, meeting = server.startup_timeout, server.distributed_init_timeout
    if place.sound("startup_timeout", "distributed_init_timeout") and duration_ms(meeting) > duration_ms(startup):
        yield WrongCombination(
            at=place.at("distributed_init_timeout"),
            found=f"distributed_init_timeout is {meeting}, longer than startup_timeout, which is {startup}",
            expected="raise startup_timeout or lower distributed_init_timeout",
        )


def image_problems(image: ImageRef, place: Place) -> Iterator[Problem]:
    """One of two ways to name an image."""
    if not place.sound() or (image.name is None) != (image.path is None):
        return
    found = "both name and path of the image are given" if image.name else "neither name nor path of the image is given"
    expected = "give one of them: a name that the profile knows, or an absolute path"
    yield WrongCombination(at=place.at(), found=found, expected=expected)


def version_problems(text: str, place: Place, name: str) -> Iterator[Problem]:
    """A release of vLLM as packaging reads it."""
    try:
        version: Version | None = Version(text)
    except InvalidVersion:
        version = None
    if version is None:
        yield Malformed(at=place.at(name), found=repr(text[:60]), expected="a version in quotes such as '0.11.1'")


def argument_problems(words: Sequence[str], place: Place, name: str, owned: Owned) -> Iterator[Problem]:
    """Only long flags with their values, each once, none that is ours, no secret."""
    if not place.sound(name):
        return
    for index, wrong in misplaced_words(words):
        expected = "long flags with their values, as '--flag=value' or as two items, one word an item"
        yield Malformed(at=place.item(name, index).at(), found=wrong, expected=expected)
    first: dict[str, int] = {}
    for index, word in enumerate(words):
        flag = flag_name(word)
        if flag is None:
            continue
        taken = owner(flag, owned)
        if taken is not None:
            yield OwnedByPlanner(at=place.item(name, index).at(), name=f"--{flag}", instead=_instead(flag, taken))
        earlier = first.setdefault(bare_name(flag), index)
        if earlier != index:
            yield NotUnique(
                at=place.item(name, index).at(),
                what="flag",
                value=f"--{flag}",
                first_path=place.item(name, earlier).path,
            )
    yield from _secret_arguments(words, place, name, owned)


def _instead(flag: str, taken: tuple[str, str | None]) -> str | None:
    full, instead = taken
    if instead is None or flag == full or flag.startswith(full):
        return instead
    return f"{instead} (the flag is short for --{full})"


def _secret_arguments(words: Sequence[str], place: Place, name: str, owned: Owned) -> Iterator[Problem]:
    secret = dict(secret_words(words))
    for index, word in enumerate(words):
        flag = flag_name(word)
        if flag is not None and owner(flag, owned) is not None:
            continue
        inside = [] if index in secret else _secret_keys(word.partition("=")[2] if flag else word)
        for called in [secret[index]] if index in secret else inside:
            yield SecretLiteral(at=place.item(name, index).at(), name=called)


def _secret_keys(text: str) -> list[str]:
    """Secret-looking fields in a value that is JSON."""
    if not text.startswith(("{", "[")):
        return []
    try:
        decoded: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [called for _, called in secret_fields(decoded)]


def environment_problems(entries: Sequence[EnvEntry], place: Place) -> Iterator[Problem]:
    """No secret as a literal."""
    for entry in entries:
        literal = entry.value.value if isinstance(entry.value, LiteralValue) else ""
        named = is_secret_name(entry.name) and not is_harmless(literal)
        if place.sound(entry.name) and (named or is_secret_value(literal)):
            yield SecretLiteral(at=place.at(entry.name), name=entry.name)


def _owned_variables(entries: Sequence[EnvEntry], place: Place) -> Iterator[Problem]:
    for entry in entries:
        ours = entry.name.startswith(_OURS) and not entry.name.startswith(_FOR_THE_STAND_IN)
        if entry.name in _OWNED_NAMES or entry.name.startswith(_OWNED_BEGINNINGS) or ours:
            yield OwnedByPlanner(at=place.at(entry.name), name=entry.name, instead=_OWNED_NAMES.get(entry.name))


def command_problems(words: Sequence[str], place: Place, name: str) -> Iterator[Problem]:
    """A command line of the author's own, of which only secrets concern us."""
    for index, called in secret_words(words):
        if place.sound(f"{name}[{index}]"):
            yield SecretLiteral(at=place.item(name, index).at(), name=called)
