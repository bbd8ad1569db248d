"""Read the start file and do its work. Heavy packages are imported only by the work that needs them."""

import argparse
import os
import sys


def main(argv: list[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m shell.client", description="Make the dataset of one shard.")
    parser.add_argument("--spec", required=True, help="the start file, client.json of an attempt")
    arguments = parser.parse_args(argv)
    from shell.worker.guard import guarded

    return guarded(lambda: _run(arguments.spec), starter=os.getppid())


def _run(path: str) -> int:
    import msgspec

    from core.client_spec import ClientSpec, CommandWork
    from shell.client import environ
    from shell.client.answers import Answers

    with open(path, "rb") as file:
        spec = msgspec.json.decode(file.read(), type=ClientSpec)
    environ.prepare(spec)
    answers = Answers(spec)
    if isinstance(spec.work, CommandWork):
        from shell.client import command

        return command.run(spec, spec.work, answers)
    from shell.client import designer

    return designer.run(spec, spec.work, answers)


if __name__ == "__main__":
    sys.exit(main())
