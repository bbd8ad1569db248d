"""What this node's cache of the hub has. Runs inside the serving container: standard library only.

The hub's own tool takes seconds to import, and nothing here may use the network. The layout is the documented one:
``models--org--name/refs/<revision>`` holds the name of a folder in ``snapshots``, whose files are links to ``blobs``.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence

from core.plan.facts import HubFact, HubWanted
from shell.facts.mounts import mount_of
from shell.facts.patience import answers
from shell.facts.weights import weight_bytes

WITHIN_S = 5.0
_TRUE = ("1", "ON", "YES", "TRUE")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONFIGS = {"config.json", "params.json"}
_TOKENIZERS = ("tokenizer", "tekken", "vocab", "spiece", "sentencepiece")


def hub_facts(wanted: Sequence[HubWanted], environ: Mapping[str, str], within_s: float = WITHIN_S) -> list[HubFact]:
    """One per repository, in order; none where the file system does not answer in time."""
    found = answers(wanted, lambda one: hub_fact(one, environ), within_s)
    return [fact for fact in found if fact is not None]


def hub_fact(wanted: HubWanted, environ: Mapping[str, str]) -> HubFact:
    """Where the servers' cache is, and whether it has the repository."""
    variables = {**environ, **dict(wanted.variables)}
    cache = cache_folder(variables)
    mount = mount_of(cache)
    snapshot = snapshot_folder(cache, wanted.model, wanted.revision)
    whole = snapshot is not None and _is_whole(f"{cache}/{_folder(wanted.model)}", snapshot)
    return HubFact(
        alias=wanted.alias,
        model=wanted.model,
        cache=cache,
        place=mount.place,
        filesystem=mount.filesystem,
        whole=whole,
        offline=any(variables.get(name, "").upper() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")),
        weight_bytes=weight_bytes(snapshot) if snapshot is not None and whole else None,
    )


def cache_folder(variables: Mapping[str, str]) -> str:
    """As huggingface_hub works it out."""
    user = variables.get("HOME") or os.path.expanduser("~")
    general = variables.get("XDG_CACHE_HOME") or f"{user}/.cache"
    home = variables.get("HF_HOME") or f"{general}/huggingface"
    cache = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    named = re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda found: variables.get(found[1] or found[2], found[0]), cache)
    return os.path.abspath(user + named[1:] if named.startswith("~/") else named)


def _folder(model: str) -> str:
    return f"models--{model.replace('/', '--')}"


def snapshot_folder(cache: str, model: str, revision: str | None) -> str | None:
    """The files of a revision; None where the cache does not know it."""
    folder = f"{cache}/{_folder(model)}"
    commit = revision or "main"
    if not _COMMIT.fullmatch(commit):
        try:
            with open(f"{folder}/refs/{commit}") as file:
                commit = file.read().strip()
        except (OSError, UnicodeDecodeError):
            return None
    found = f"{folder}/snapshots/{commit}"
    return found if commit and os.path.isdir(found) else None


def _is_whole(folder: str, snapshot: str) -> bool:
    """Config, tokenizer and all weights are there, and no download was cut off. When in doubt the hub is asked."""
    try:
        names = {name for name in os.listdir(snapshot) if os.path.exists(f"{snapshot}/{name}")}
        blobs = os.listdir(f"{folder}/blobs")
    except OSError:
        return False
    if any(name.endswith(".incomplete") for name in blobs) or not names & _CONFIGS:
        return False
    index = "model.safetensors.index.json"
    weights = _weights_of(f"{snapshot}/{index}") if index in names else None
    there = weights <= names if weights is not None else weight_bytes(snapshot) is not None
    return there and any(name.startswith(_TOKENIZERS) for name in names) and not _names_other_code(snapshot)


def _weights_of(index: str) -> set[str]:
    """The files that an index lists; something that no folder has when it cannot be read."""
    try:
        with open(index, "rb") as file:
            found = json.load(file)["weight_map"]
        return set(found.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {""}


def _names_other_code(snapshot: str) -> bool:
    """Whether its config refers to code in another repository, which has to be there too."""
    for name in ("config.json", "tokenizer_config.json"):
        try:
            with open(f"{snapshot}/{name}", "rb") as file:
                content = file.read(1 << 20)
        except OSError:
            continue
        if b'"auto_map"' in content and b"--" in content:
            return True
    return False
