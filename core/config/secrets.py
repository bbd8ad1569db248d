"""Names and values that look like secrets, so that none gets into a plan, a log or a command line.

A guess on the safe side of both mistakes: ``HF_TOKEN``, ``api-key`` and ``dbPassword`` are secrets, ``MAX_TOKENS``,
``tokenizer``, ``PAD_TOKEN`` and ``primary_key`` are not.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ALWAYS = frozenset(
    "password passwd passphrase pwd secret secrets credential credentials apikey apikeys accesskey secretkey".split()
)
_AT_THE_END = frozenset("token key auth".split())
_PAIRS = frozenset(
    {("api", "key"), ("api", "keys"), ("access", "key"), ("private", "key"), ("access", "token"), ("auth", "token")}
)
_NO_SECRET_BEFORE = {
    "token": frozenset(
        "pad eos bos unk mask sep cls stop start end image audio video special mm per first next".split()
    ),
    "key": frozenset("primary foreign partition sort cache group column routing idempotency public sequence".split()),
    "auth": frozenset[str](),
}
_SECRET_VALUE = re.compile(
    r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|"
    r"glpat-[A-Za-z0-9_-]{16,}|xox[abp]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16})\b"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s:@]+@"
)
_SWITCHES = frozenset(["", "0", "1", "true", "false", "yes", "no", "on", "off", "none", "null", "auto"])
_ASSIGNMENT = re.compile(r"-{0,2}(?P<name>[A-Za-z][A-Za-z0-9_.-]*)[=:](?P<value>.+)", re.DOTALL)
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][A-Za-z0-9_.-]*)")


def is_secret_name(name: str) -> bool:
    """Whether what is called so is usually secret."""
    words = [word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", name).lower()) if word]
    if not words or words == ["key"]:
        return False
    if _ALWAYS.intersection(words) or any(pair in _PAIRS for pair in pairwise(words)):
        return True
    before = words[-2] if len(words) > 1 else ""
    return words[-1] in _AT_THE_END and before not in _NO_SECRET_BEFORE[words[-1]]


def is_harmless(text: str) -> bool:
    """Whether a value says nothing, or only on or off, so that it is no secret whatever its name."""
    return text.lower() in _SWITCHES


def is_secret_value(text: str) -> bool:
    """Whether the text has the form of a well-known kind of key, or a URL with a password in it."""
    return _SECRET_VALUE.search(text) is not None


def secret_words(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Which words of a command line carry a secret, and how it is called: ``--api-key=x``, ``--api-key x``, ``KEY=x``.

    A reference that a shell resolves later (``--api-key=$KEY``) is none.
    """
    for index, word in enumerate(words):
        given = _ASSIGNMENT.fullmatch(word)
        flag = _FLAG.fullmatch(word)
        following = words[index + 1] if index + 1 < len(words) else "-"
        if given and is_secret_name(given["name"]) and not _refers(given["value"]):
            yield index, given["name"]
        elif flag and is_secret_name(flag["name"]) and not following.startswith("-") and not _refers(following):
            yield index, flag["name"]
        elif is_secret_value(word):
            yield index, given["name"] if given else "the value"


def _refers(value: str) -> bool:
    return value.startswith("$") or is_harmless(value)


def secret_fields(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and name of every text in a JSON value that stands under a secret-looking key.

    The texts themselves are not judged: prompts may well talk about passwords.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            below = f"{path}.{key}" if path else str(key)
            if isinstance(inner, str) and is_secret_name(str(key)) and not is_harmless(inner):
                yield below, str(key)
            else:
                yield from secret_fields(inner, below)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from secret_fields(inner, f"{path}[{index}]")
