"""``python -m shell.run --run-dir DIR --shard N``: one attempt at one shard, the only owner of its processes.

Order: allocation, facts of every node, bind, client and servers and endpoints, readiness, the client's work, the end in
order, the result. Exit codes are those of sysexits.h: 0, 64 usage, 65 the client's data, 69 servers unavailable, 70 our
bug, 74 the run's folder cannot be used any more, 75 try again, 78 configuration; 128+n after signal n.
"""

import sys

USAGE = """usage: python -m shell.run --run-dir DIR (--shard N | --shard-from-env) [--launcher srun|local]

Run one attempt at one shard of a run, inside its allocation.

  --run-dir DIR     the folder of the run, made by `dd-slurm submit` or `dd-slurm rehearse`
  --shard N         which shard
  --shard-from-env  take it from SLURM_ARRAY_TASK_ID; 0 in a job that is no array
  --launcher WHAT   srun: job steps of the allocation (default); local: processes of this machine in their place
"""
EX_OK, EX_USAGE, EX_IOERR = 0, 64, 74


def main(argv: list[str]) -> int:
    """Parse the few options, then run guarded, so that nothing survives this process."""
    if "--help" in argv or "-h" in argv:
        print(USAGE, end="")
        return EX_OK
    options = _options(argv)
    if options is None:
        print(USAGE, end="", file=sys.stderr)
        return EX_USAGE
    import errno
    import os
    import secrets
    import shutil

    from shell.worker.guard import guarded

    shard, local, root = options[1], options[2], os.path.abspath(options[0])
    storage = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}
    scratch = f"/tmp/dd-slurm-{os.getuid()}-{secrets.token_hex(4)}"

    def work() -> int:
        from shell.attempt.controller import run_attempt

        try:
            return run_attempt(root, shard, scratch, local)
        except OSError as error:
            if error.errno not in storage and os.path.isdir(root):
                raise
            print(f"{root}: the folder of the run cannot be used any more: {error}", file=sys.stderr)
            print("    hint: free its disk or put the folder back, then run the shard again", file=sys.stderr)
            return EX_IOERR

    return guarded(work, clean_up=lambda: shutil.rmtree(scratch, ignore_errors=True))


def _options(argv: list[str]) -> tuple[str, int, bool] | None:
    words = {"--run-dir": "", "--shard": "", "--launcher": "srun"}
    rest = list(argv)
    from_environment = "--shard-from-env" in rest
    if from_environment:
        import os

        rest.remove("--shard-from-env")
        words["--shard"] = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
    while rest:
        name, has_value, value = rest.pop(0).partition("=")
        if name not in words or not (has_value or rest):
            return None
        words[name] = value if has_value else rest.pop(0)
    if not words["--run-dir"] or not words["--shard"].isdecimal() or words["--launcher"] not in ("srun", "local"):
        return None
    return words["--run-dir"], int(words["--shard"]), words["--launcher"] == "local"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
