"""Run by the Python of a vLLM: what its own parser says to commands of servers.

Standard input: a JSON list of commands, each a list of words after `vllm serve`. Standard output, last line: a JSON
list, for each command null or the complaint. Imports vLLM once for all of them.
"""

import argparse
import contextlib
import io
import json
import sys

from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def complaint(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    """What the parser says; None when it takes the command."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            validate_parsed_serve_args(parser.parse_args(words))
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Answer for all commands."""
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    print(json.dumps([complaint(parser, words) for words in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
