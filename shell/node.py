"""The worker that runs once on every node of the allocation: ``facts`` says what is there, ``serve`` runs servers.

Runs inside the serving container: standard library and msgspec only, and nothing is imported before it is needed.
"""

import os
import sys

USAGE = """\
usage: python -m shell.node facts --request FILE [--address A] [--devices N] [--starter PID]
       python -m shell.node serve --plan FILE --step NAME --launch N --tasks-dir DIR --log-dir DIR [--lease FILE]
                                   [--lease-expires SECONDS] [--starter PID]

facts   write what this node says about itself into the folder that the request names
serve   run this node's servers of one step until they end

The node finds its part by SLURMD_NODENAME (else by its host name), never by its task number.

--request FILE    what to ask; the same file for all nodes
--address A       rehearsal: the address to report instead of the system's
--devices N       rehearsal: the number of GPUs to report instead of the system's
--plan FILE       the bound plan
--step NAME       which step of the plan
--launch N        which launch of the step; names records and logs
--tasks-dir DIR   where the end of the servers is written down
--log-dir DIR     where the servers' output goes
--lease FILE      end in order when this file has not been touched for a while
--lease-expires S  how long that is; 180 without it
--starter PID     end in order when this parent process dies
"""


def main(arguments: list[str]) -> int:
    """The exit code."""
    if not arguments or arguments[0] in ("-h", "--help") or "--help" in arguments[1:]:
        print(USAGE, end="")
        return os.EX_OK if arguments else os.EX_USAGE
    options = _options(arguments[1:])
    if isinstance(options, str):
        return _refuse(options)
    if arguments[0] == "facts":
        return _facts(options)
    return _serve(options) if arguments[0] == "serve" else _refuse(f"unknown command {arguments[0]!r}")


def _options(words: list[str]) -> dict[str, str] | str:
    """``--name value`` and ``--name=value``; a text when something is wrong."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            return f"unexpected {word!r}"
        given = value if equals else next(rest, None)
        if given is None:
            return f"{name} needs a value"
        found[name[2:]] = given
    return found


def _facts(options: dict[str, str]) -> int:
    optional = ("address", "devices", "starter")
    wrong = _wrong(options, ("request",), optional, numbers=("devices", "starter"))
    if wrong:
        return _refuse(wrong)
    from shell.facts.node import Rehearsed, report_facts
    from shell.worker.guard import guarded

    said = Rehearsed(options.get("address"), _number(options, "devices"))
    return guarded(lambda: report_facts(options["request"], said, os.environ), _number(options, "starter"))


def _serve(options: dict[str, str]) -> int:
    needed, optional = ("plan", "step", "launch", "tasks-dir", "log-dir"), ("lease", "lease-expires", "starter")
    wrong = _wrong(options, needed, optional, numbers=("launch", "lease-expires", "starter"))
    if wrong:
        return _refuse(wrong)
    from core.units import StepName
    from shell.worker.serve import serve
    from shell.worker.task import Options

    asked = Options(
        plan=options["plan"],
        step=StepName(options["step"]),
        tasks=options["tasks-dir"],
        logs=options["log-dir"],
        launch=int(options["launch"]),
        starter=_number(options, "starter"),
        lease=options.get("lease"),
        lease_expires_s=_number(options, "lease-expires"),
    )
    return serve(asked, os.environ)


def _number(options: dict[str, str], name: str) -> int | None:
    return int(options[name]) if name in options else None


def _wrong(
    options: dict[str, str], needed: tuple[str, ...], optional: tuple[str, ...], numbers: tuple[str, ...]
) -> str | None:
    missing = [f"--{name}" for name in needed if name not in options]
    if missing:
        return f"missing: {', '.join(missing)}"
    for name, value in options.items():
        if name not in (*needed, *optional):
            return f"unknown option --{name}"
        if name in numbers and not (value.isascii() and value.isdigit()):
            return f"--{name} needs a number, not {value!r}"
    return None


def _refuse(reason: str) -> int:
    print(f"node: {reason}; see python -m shell.node --help", file=sys.stderr)
    return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
