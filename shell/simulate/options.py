"""The command line of ``vllm serve``, as far as a stand-in must understand it. Standard library only.

`flags.txt` holds every flag of vLLM 0.10.2 to 0.33, with a 0 behind those that take no value and a + behind those that
take several; any other flag is refused as vLLM does. Flags that matter are acted upon, the others are ignored.
"""

import dataclasses
import importlib.resources
import math
import re

_SHORT = {
    "-ac": "--attention-config",
    "-asc": "--api-server-count",
    "-cc": "--compilation-config",
    "-dc": "--diffusion-config",
    "-dcp": "--decode-context-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpa": "--data-parallel-address",
    "-dpb": "--data-parallel-backend",
    "-dpe": "--data-parallel-external-lb",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpl": "--data-parallel-size-local",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-dpn": "--data-parallel-rank",
    "-dpp": "--data-parallel-rpc-port",
    "-dpr": "--data-parallel-start-rank",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-O": "--optimization-level",
    "-pcp": "--prefill-context-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-r": "--node-rank",
    "-sc": "--speculative-config",
    "-tp": "--tensor-parallel-size",
}

_UNITS = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20}
_LONGEST = 32_768
"""What a real server reads from the model."""

_READ_LATER = ("--port", "--max-num-seqs", "--max-num-queued-reqs", "--shutdown-timeout")
"""Whole numbers that are looked at here already, so that wrong ones are refused before anything starts."""


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
        if not text.removeprefix("-").isdecimal():
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
    def longest(self) -> int:
        """Most tokens of a prompt with its answer: ``8192``, ``8k`` (thousands), ``8K`` (times 1,024), ``auto``."""
        text = self.text("--max-model-len", "auto")
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", text)
        if found:
            return int(float(found[1]) * _UNITS[found[2]])
        if text not in ("auto", "-1"):
            raise UsageError(f"argument --max-model-len: invalid human_readable_int value: {text!r}")
        return _LONGEST

    @property
    def data(self) -> int:
        """Data-parallel ranks of the whole replica."""
        return self.number("--data-parallel-size", 1)

    @property
    def nodes(self) -> int:
        """Nodes of the replica, when they are told by ``--nnodes``."""
        return self.number("--nnodes", 1)

    @property
    def model_ranks(self) -> int:
        """Devices of one data-parallel rank."""
        tensor, pipeline = self.number("--tensor-parallel-size", 1), self.number("--pipeline-parallel-size", 1)
        return tensor * pipeline * self.number("--prefill-context-parallel-size", 1)

    @property
    def local_data(self) -> int:
        """Data-parallel ranks of this process, when they are not told by ``--nnodes``."""
        return 1 if "--data-parallel-rank" in self.given else self.number("--data-parallel-size-local", self.data)

    @property
    def local_ranks(self) -> int:
        """Devices that this process uses."""
        return self.model_ranks * (self.data if self.nodes > 1 else self.local_data) // self.nodes

    @property
    def own_load_balancing(self) -> bool:
        """Whether every node serves its own data-parallel ranks only (hybrid or external load balancing)."""
        told = {"--data-parallel-rank", "--data-parallel-hybrid-lb", "--data-parallel-external-lb"} & set(self.given)
        return bool(told) or ("--data-parallel-start-rank" in self.given and not self.headless)


def parse(words: list[str]) -> Options:
    """The options of ``serve MODEL …``. Raises `UsageError` in vLLM's words."""
    if not words or words[0] != "serve":
        raise UsageError("argument subparser: invalid choice: use serve")
    most_values = known_flags()
    given: dict[str, list[str]] = {}
    unknown: list[str] = []
    loose: list[str] = []
    values, room = loose, 1.0
    for word in words[1:]:
        if not _is_flag(word):
            values = values if room else loose
            values.append(word)
            room -= 1
            continue
        written, has_value, value = word.partition("=")
        name = _full_name(written)
        positive = name.replace("--no-", "--", 1)
        if positive not in most_values and name not in most_values:
            unknown.append(word)
        room = 0 if has_value or name not in most_values else most_values[name]
        values = given[name] = [value] if has_value else []
    unknown += loose[1:]
    if unknown:
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}")
    options = Options(model=[*loose, *given.get("--model", []), "Qwen/Qwen3-0.6B"][0], given=given)
    for flag in _READ_LATER:
        options.number(flag, 0)
    return options


def known_flags() -> dict[str, float]:
    """How many words each flag takes."""
    rows = importlib.resources.files("shell.simulate").joinpath("flags.txt").read_text().splitlines()
    return {row.split()[0]: {" 0": 0, " +": math.inf}.get(row[-2:], 1) for row in rows}


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not word[1:].replace(".", "", 1).isdecimal()


def _full_name(written: str) -> str:
    """The long name: of a short one, of one with a dotted key of its JSON, of one with underscores."""
    name = "-O" if written.startswith("-O") else written.split(".")[0]
    return _SHORT.get(name, name.replace("_", "-"))
