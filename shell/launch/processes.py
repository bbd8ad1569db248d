"""Child processes of the controller: started with their output in a file, reported at once when they end.

One thread waits for all of them in the kernel, so nothing polls. Its callbacks run in that thread and must only hand
on what they are told.
"""

import os
import select
import selectors
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Literal

from shell.worker.descendants import descendants, signal_all

ExitCallback = Callable[[int], None]
LineCallback = Callable[[str], None]


class Child:
    """A process that the reaper looks after. `pid` is also its process group when it has a session of its own."""

    def __init__(
        self, process: subprocess.Popen[bytes], session: bool, exited: ExitCallback, line: LineCallback
    ) -> None:
        self.pid = process.pid
        self._process = process
        self._session = session
        self._exited = exited
        self._line = line
        self._rest = b""
        self._lock = threading.Lock()
        self._gone = False

    @property
    def gone(self) -> bool:
        """Whether it has ended and its exit code is known."""
        return self._gone

    def write(self, content: bytes) -> bool:
        """Give it something to read; False when it does not read any more."""
        pipe = self._process.stdin
        if pipe is None:
            return False
        try:
            pipe.write(content)
            pipe.flush()
        except (BrokenPipeError, ValueError):
            return False
        return True

    def offer(self, content: bytes) -> bool:
        """As `write`, but only when nobody has to wait for it; for at most 4096 bytes that may be lost."""
        room = select.poll()
        if self._process.stdin is None or self._process.stdin.closed:
            return False
        room.register(self._process.stdin, select.POLLOUT)
        return bool(room.poll(0)) and self.write(content)

    def signal(self, number: int) -> None:
        """To the whole group; KILL also to everything below that has left the group. Nothing when it is gone."""
        if number == signal.SIGKILL:
            self.kill_below()
        with self._lock:
            if not self._gone:
                (os.killpg if self._session else os.kill)(self.pid, number)

    def signal_alone(self, number: int) -> None:
        """To the process itself and to nothing else of its group. Nothing when it is gone."""
        with self._lock:
            if not self._gone:
                os.kill(self.pid, number)

    def kill_below(self) -> None:
        """Kill all that it started, but not itself: a guard then ends by itself, after it has looked for more."""
        with self._lock:
            if not self._gone:
                signal_all(descendants(self.pid), signal.SIGKILL)

    def read_lines(self) -> bool:
        """Hand on what it has written so far; False at the end of its output."""
        pipe = self._process.stdout
        while pipe is not None:
            try:
                content = os.read(pipe.fileno(), 1 << 16)
            except BlockingIOError:
                return True
            *lines, self._rest = (self._rest + content).split(b"\n")
            for line in lines if content else (*lines, *filter(None, [self._rest])):
                self._line(line.decode(errors="replace"))
            if not content:
                self._rest = b""
                return False
        return False

    def bury(self) -> None:
        """Take the exit code of a process that has ended, after all that it wrote, and tell it."""
        with self._lock:
            code = self._process.wait()
            self._gone = True
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._exited(code)

    @property
    def output(self) -> int | None:
        """The descriptor that its lines come from."""
        return None if self._process.stdout is None else self._process.stdout.fileno()


def ignore_line(line: str) -> None:
    """Nobody reads what it writes."""


class Reaper:
    """Starts processes and tells when they end. Exit codes are negative when a signal killed the process."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._todo: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._take_todo)
        self._thread = threading.Thread(target=self._run, name="reaper", daemon=True)
        self._thread.start()

    def spawn(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        log: str,
        on_exit: ExitCallback,
        on_line: LineCallback | None = None,
        stdin: Literal["null", "pipe"] = "null",
        session: bool = True,
        errors: Literal["log", "lines"] = "log",
    ) -> Child:
        """Start a process whose output goes to the end of `log`; with `on_line`, only its errors do, or not even they.

        Call it from a thread that lives as long as the process, when the child asks to end with its parent.
        Errors: OSError when it cannot be started.
        """
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            process = subprocess.Popen(
                argv,
                env=environ,
                stdin=subprocess.PIPE if stdin == "pipe" else subprocess.DEVNULL,
                stdout=descriptor if on_line is None else subprocess.PIPE,
                stderr=descriptor if errors == "log" else subprocess.STDOUT,
                start_new_session=session,
            )
        finally:
            os.close(descriptor)
        child = Child(process, session, on_exit, on_line or ignore_line)
        self._ask(lambda: self._watch(child))
        return child

    def close(self) -> None:
        """Stop looking; processes that still run are left alone."""
        self._ask(lambda: False)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _ask(self, todo: Callable[[], bool]) -> None:
        self._todo.put(todo)
        os.write(self._wake_write, b"w")

    def _run(self) -> None:
        """A callback that breaks is a bug: better to end with a traceback than to go on without hearing of exits."""
        try:
            self._watch_all()
        except BaseException:
            traceback.print_exc()
            os._exit(os.EX_SOFTWARE)

    def _watch_all(self) -> None:
        going_on = True
        while going_on:
            for key, _ in self._selector.select():
                if self._selector.get_map().get(key.fd) is key:  # else an exit in the same batch has closed it
                    going_on = key.data() and going_on
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _take_todo(self) -> bool:
        os.read(self._wake_read, 1 << 12)
        going_on = True
        while not self._todo.empty():
            going_on = self._todo.get()() and going_on
        return going_on

    def _watch(self, child: Child) -> bool:
        if child.output is not None:
            os.set_blocking(child.output, False)
            self._selector.register(child.output, selectors.EVENT_READ, lambda: self._read(child))
        try:
            descriptor = os.pidfd_open(child.pid)
        except OSError:
            waiting = threading.Thread(target=self._wait_in_thread, args=(child,), daemon=True)
            waiting.start()
        else:
            self._selector.register(descriptor, selectors.EVENT_READ, lambda: self._ended(child, descriptor))
        return True

    def _wait_in_thread(self, child: Child) -> None:
        """Kernels before 5.3 have no pidfd: a thread per process does the same."""
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self._ask(lambda: self._ended(child, None))

    def _read(self, child: Child) -> bool:
        if child.output is not None and not child.read_lines():
            self._selector.unregister(child.output)
        return True

    def _ended(self, child: Child, descriptor: int | None) -> bool:
        if descriptor is not None:
            self._selector.unregister(descriptor)
            os.close(descriptor)
        if child.output is not None:
            child.read_lines()
            if child.output in self._selector.get_map():
                self._selector.unregister(child.output)
        child.bury()
        return True
