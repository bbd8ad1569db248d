"""The command line of ``vllm serve``, as far as a stand-in must understand it. Standard library only.

`flags.txt` holds every flag of vLLM 0.10.2 to 0.33; any other is refused as vLLM does. Flags that matter are acted
upon, the others are accepted and ignored.
"""

import dataclasses
import pathlib

_SHORT = {"-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size"}
_SHORT |= {"-n": "--nnodes", "-r": "--node-rank", "-dpl": "--data-parallel-size-local", "-dpr": "--data-parallel-rank"}
_SHORT |= {"-O": "--optimization-level", "-cc": "--compilation-config", "-dpm": "--data-parallel-multi-port"}


class UsageError(Exception):
    """The command line is not one of vLLM's."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What was asked for; `given` holds every flag with its words."""

    model: str
    given: dict[str, list[str]]

    def text(self, flag: str, default: str) -> str:
        """The value of a flag."""
        return self.given[flag][-1] if self.given.get(flag) else default

    def number(self, flag: str, default: int) -> int:
        """The value of a flag that takes a whole number."""
        text = self.text(flag, str(default))
        if not text.lstrip("-").isdecimal():
            raise UsageError(f"argument {flag}: invalid int value: {text!r}")
        return int(text)

    @property
    def names(self) -> tuple[str, ...]:
        """Served names; the model itself when none is given."""
        return tuple(self.given.get("--served-model-name") or (self.model,))

    @property
    def headless(self) -> bool:
        """Without an API."""
        return "--headless" in self.given

    @property
    def local_ranks(self) -> int:
        """Devices that this process uses."""
        data = self.number("--data-parallel-size-local", self.number("--data-parallel-size", 1))
        data = 1 if "--data-parallel-rank" in self.given else data
        world = self.number("--tensor-parallel-size", 1) * self.number("--pipeline-parallel-size", 1)
        nodes = self.number("--nnodes", 1)
        return max(world * self.number("--data-parallel-size", 1) // nodes if nodes > 1 else world * data, 1)


def parse(words: list[str]) -> Options:
    """The options of ``serve MODEL …``. Raises `UsageError` in vLLM's words."""
    if not words or words[0] != "serve":
        raise UsageError("argument subparser: invalid choice: use serve")
    known = set((pathlib.Path(__file__).parent / "flags.txt").read_text().split())
    given: dict[str, list[str]] = {}
    unknown: list[str] = []
    loose: list[str] = []
    values = loose
    for word in words[1:]:
        if not word.startswith("-") or word[1:].isdecimal():
            values.append(word)
            continue
        name, has_value, value = word.partition("=")
        name = _SHORT.get(name.split(".")[0], name.split(".")[0])
        if name not in known and name.replace("--no-", "--", 1) not in known:
            unknown.append(word)
        values = given[name] = [value] if has_value else []
    if unknown:
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}")
    model = [*loose, *given.get("--model", []), "Qwen/Qwen3-0.6B"]
    return Options(model=model[0], given=given)
