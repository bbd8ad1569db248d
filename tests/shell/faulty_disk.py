"""A process that dies at one of its calls that change files: all of them can be counted, and each be the last one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHANGES = ("open", "write", "fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Died(BaseException):
    """Nothing of the process goes on; what cleans up in `finally` dies as well."""


class Disk:
    """Counts calls; from call number `last` on every one dies, `after` it was carried out or before."""

    def __init__(self, last: int | None, after: bool = False) -> None:
        self.last, self.after = last, after
        self.calls = 0

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            if name == "open" and not (words[1] if len(words) > 1 else 0) & WRITES:
                return real(*words, **more)
            self.calls += 1
            if self.last is None or self.calls < self.last:
                return real(*words, **more)
            if self.calls == self.last and self.after:
                real(*words, **more)
            raise Died(f"{name} {words[:1]}")

        return call


@contextmanager
def disk(last: int | None, after: bool = False) -> Iterator[Disk]:
    """Within it, calls that change files go through a `Disk`."""
    counted = Disk(last, after)
    with pytest.MonkeyPatch.context() as patched:
        for name in CHANGES:
            patched.setattr(os, name, counted.wrap(name, getattr(os, name)))
        yield counted


def dies_at_each_call(work: Callable[[], Any]) -> Iterator[None]:
    """Run the work again and again, dying one call later each time, before and after the call; yields after a death."""
    with disk(None) as counted:
        work()
    calls = counted.calls
    assert calls > 0
    for after in (False, True):
        for last in range(1, calls + 1):
            with disk(last, after), pytest.raises(Died):
                work()
            yield
