"""A stand-in for a server process: tells what it was given, then does what ``--do=<rank>:<what>:<value>`` says."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def main(words: list[str]) -> int:
    rank = os.environ.get("CUDA_VISIBLE_DEVICES")
    told = [word.removeprefix("--do=").split(":", 2) for word in words if word.startswith("--do=")]
    doing = {what: value for asked, what, value in told if asked == rank}
    print("argv", *words, flush=True)
    for name in ("CUDA_VISIBLE_DEVICES", "VLLM_HOST_IP", "SLURM_PROCID", "SLURMD_NODENAME"):
        print(name, os.environ.get(name), flush=True)
    if "ignore-term" in doing:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for how in ("hide", "hide-politely"):
        if how in doing:
            _hide_a_grandchild(Path(doing[how]), polite=how != "hide")
    if "listen" in doing:
        _listen(words)
    if "note-term" in doing:
        signal.signal(signal.SIGTERM, lambda *_: _note(Path(doing["note-term"])))
    print("open files", *resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
    print("ready", flush=True)
    if "exit-when" in doing:
        path, code = doing["exit-when"].rsplit("=", 1)
        while not os.path.exists(path):
            time.sleep(0.01)
        return int(code)
    while True:
        signal.pause()


def _hide_a_grandchild(pid_file: Path, polite: bool) -> None:
    """A process that has left session and parent; it ignores TERM unless it is polite."""
    sleeper = (
        f"import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.{'SIG_DFL' if polite else 'SIG_IGN'}); "
        "os.fork() and os._exit(0); os.setsid(); "
        "open(sys.argv[1] + '.new', 'w').write(str(os.getpid())); os.rename(sys.argv[1] + '.new', sys.argv[1]); "
        "time.sleep(600)"
    )
    subprocess.run([sys.executable, "-c", sleeper, str(pid_file)], check=True, start_new_session=True)
    while not pid_file.exists():
        time.sleep(0.01)


def _listen(words: list[str]) -> None:
    given = dict(word.lstrip("-").split("=", 1) for word in words if word.startswith("--") and "=" in word)
    server = socket.socket()
    server.bind((given["host"], int(given["port"])))
    server.listen()
    globals()["_kept"] = server


def _note(path: Path) -> None:
    path.write_text(str(time.monotonic()))
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
