"""A process that outlives its worker only to clean up, so that ``kill -9`` of any single process leaves nothing behind.

The guard forks; the child does the work. When the child is gone, for whatever reason, the guard kills all that it left.
When the guard itself is killed, the kernel sends TERM to the child, which then ends in order. Standard library only.
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

from shell.worker.descendants import adopt_orphans, end_with, has_children, kill_descendants, reap

_FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
_WATCHED = _FORWARDED | {signal.SIGCHLD}
_KILL_TIMEOUT_S = 5.0
_EXIT_BUG = 70


def nothing() -> None:
    """Clean up nothing."""


def guarded(main: Callable[[], int], starter: int | None = None, clean_up: Callable[[], None] = nothing) -> int:
    """Run `main` in a guarded child and give its exit code, 128+n when signal n killed it.

    With `starter`, the pid of the process that started this one, everything also ends in order when that one dies.
    `clean_up` runs after the last process is gone: in the guard, or in the child when the guard was killed. Call this
    from the only thread of the process, before anything is started.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    adopt_orphans()
    guard = os.getpid()
    _flush()
    worker = os.fork()
    if worker == 0:
        os._exit(_work(main, guard, before - _WATCHED, clean_up))
    if starter is not None:
        end_with(starter)
    try:
        return _watch(worker)
    finally:
        clean_up()


def _work(
    main: Callable[[], int], guard: int, mask: set[int] | set[signal.Signals], clean_up: Callable[[], None]
) -> int:
    """What `main` gives; a traceback and 70 when it breaks. It cleans up too: its guard may be the one that is gone."""
    try:
        adopt_orphans()
        for number in _FORWARDED:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                signal.signal(number, signal.SIG_DFL)
        end_with(guard)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return main()
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except BaseException:
        traceback.print_exc()
        return _EXIT_BUG
    finally:
        _flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        kill_descendants(_KILL_TIMEOUT_S)
        if os.getppid() != guard:
            clean_up()


def _flush() -> None:
    """What was printed goes out; a full disk or a reader that is gone must not keep us from cleaning up."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.flush()


def _watch(worker: int) -> int:
    code: int | None = None
    while code is None:
        caught = signal.sigwait(_WATCHED)
        if caught in _FORWARDED:
            os.kill(worker, caught)
        while (ended := reap()) is not None:
            if ended[0] == worker:
                code = ended[1]
    started = time.monotonic()
    if has_children() and not kill_descendants(_KILL_TIMEOUT_S):
        print(f"guard: some processes did not die within {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 128 - code if code < 0 else code
