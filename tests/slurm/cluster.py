"""A real Slurm cluster for tests, and all that tests do with it. Every call ends within a bounded time.

Nodes are namespaces of this machine (`lab/cluster.sh`). All files are shared by all nodes, except for /run, /dev/shm
and `Cluster.local`.
"""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.slurm.leftovers import HeldNamespaces
from tests.slurm.node_processes import Process, is_of_the_node, processes_like
from tests.slurm.options import LAB, PATH, LabOptions, lab_environment

USERS = {"root": 0, "alice": 2001, "bob": 2002}
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT REVOKED".split()
)


class ClusterError(Exception):
    """The cluster did not do what a test asked for; the text says what it said instead."""


class Cluster:
    """A running cluster. Unless told otherwise jobs are run by `user`: alice, or root where she cannot run Python."""

    def __init__(self, folder: Path, options: LabOptions, namespaces: HeldNamespaces) -> None:
        self.folder = folder
        self.options = options
        self.namespaces = namespaces
        self.nodes = tuple(node.name for node in options.nodes)
        self.shared = folder / "shared"
        self.local = folder / "local"
        self.user = "root"

    # ------------------------------------------------------------------------------------------- commands

    def run(
        self,
        argv: Sequence[str],
        *,
        node: str = "login",
        user: str | None = None,
        timeout_s: float = 60,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """What the command said. With `check` an exit code other than 0 is a `ClusterError`, as is a timeout always.

        The environment holds PATH, HOME, USER, LOGNAME, LANG, and `env`; nothing of the caller's.
        """
        process = self.start(argv, node=node, user=user, env=env, cwd=cwd, limit_s=timeout_s)
        try:
            out, err = process.communicate(stdin, timeout_s)
        except BaseException as stopped:
            _kill_group(process)
            out, err = process.communicate()
            if isinstance(stopped, subprocess.TimeoutExpired):
                raise ClusterError(f"{_said(argv, node, out, err)}\nno end within {timeout_s} s") from None
            raise
        if check and process.returncode:
            raise ClusterError(f"{_said(argv, node, out, err)}\nexit code {process.returncode}")
        return subprocess.CompletedProcess(list(argv), process.returncode, out, err)

    def start(
        self,
        argv: Sequence[str],
        *,
        node: str = "login",
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        limit_s: float = 300,
    ) -> subprocess.Popen[str]:
        """The running command, with pipes, in a group of its own. On `login` its pid is the command's.

        On other nodes it is killed after `limit_s`, because it is not a child of ours there.
        """
        return subprocess.Popen(
            [*self._enter(node, user or self.user, env or {}, cwd or self.shared, limit_s), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _enter(self, node: str, user: str, env: Mapping[str, str], cwd: Path, limit_s: float) -> Iterator[str]:
        number = str(USERS[user])
        home = "/root" if user == "root" else str(self.folder / "home" / user)
        own = {"PATH": PATH, "HOME": home, "USER": user, "LOGNAME": user, "LANG": "C.UTF-8", **env}
        yield from ("nsenter", "--target", str(self.init(node)), "--net", "--uts", "--ipc", "--mount")
        if node != "login":
            yield "--pid"
        yield from ("--", "setpriv", "--reuid", number, "--regid", number, "--clear-groups")
        yield from ("env", "-i", "-C", str(cwd), *(f"{name}={value}" for name, value in own.items()))
        if node != "login":
            yield from ("timeout", "--signal=KILL", str(limit_s))

    def init(self, node: str) -> int:
        """The process id of the node's init, outside of all nodes."""
        try:
            return int((self.folder / "node" / node / "pid").read_text())
        except (OSError, ValueError):
            raise ClusterError(f"there is no node {node!r}") from None

    # ------------------------------------------------------------------------------------------- jobs

    def submit(self, script: str, *options: str, user: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """The id of the job. Its output goes to `output(job)`, unless an option or a directive says otherwise."""
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}"
        named = any(word.startswith(("-o", "--output")) for word in options) or re.search(
            r"^#SBATCH +(-o|--output)", text, re.MULTILINE
        )
        argv = ("sbatch", "--parsable", *(() if named else (f"--output={self.shared}/%j.out",)), *options)
        return self.run(argv, user=user, env=env, stdin=text).stdout.strip().partition(";")[0]

    def output(self, job: str) -> str:
        """What the job has printed so far."""
        path = self.shared / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def show_job(self, job: str) -> str:
        """``scontrol show job -d -o``."""
        return self.run(("scontrol", "show", "job", "-d", "-o", job)).stdout

    def state(self, job: str) -> str:
        """The state as Slurm writes it, for example NODE_FAIL."""
        found = re.search(r" JobState=(\S+)", self.show_job(job))
        if found is None:
            raise ClusterError(f"scontrol does not tell the state of job {job}")
        return found[1]

    def wait(self, job: str, states: frozenset[str] | set[str] = ENDED, timeout_s: float = 60) -> str:
        """The state of the job, as soon as it is one of `states`."""
        until = time.monotonic() + timeout_s
        while (state := self.state(job)) not in states:
            if time.monotonic() > until:
                raise ClusterError(f"{self.show_job(job)}\n{self.output(job)}\nnot in {states} within {timeout_s} s")
            time.sleep(0.1)
        return state

    def wait_gone(self, job: str, timeout_s: float = 60) -> None:
        """Returns when nothing of the job waits or runs any more; also for arrays."""
        self.until(lambda: not self.run(("squeue", "-h", "-j", job), check=False).stdout.strip(), timeout_s)

    def until(self, true: Callable[[], bool], timeout_s: float = 60) -> None:
        """Returns as soon as `true` is."""
        until = time.monotonic() + timeout_s
        while not true():
            if time.monotonic() > until:
                raise ClusterError(f"still not so after {timeout_s} s")
            time.sleep(0.1)

    def wait_running(self, job: str, timeout_s: float = 60) -> None:
        """Returns when the job runs; an end before that is an error."""
        state = self.wait(job, ENDED | {"RUNNING"}, timeout_s)
        if state != "RUNNING":
            raise ClusterError(f"job {job} is {state}\n{self.output(job)}")

    def run_job(self, script: str, *options: str, user: str | None = None, timeout_s: float = 60) -> str:
        """What a job prints that ends COMPLETED."""
        job = self.submit(script, *options, user=user)
        state = self.wait(job, timeout_s=timeout_s)
        if state != "COMPLETED":
            raise ClusterError(f"job {job} is {state}\n{self.output(job)}")
        return self.output(job)

    def scancel(self, *words: str, user: str | None = None) -> None:
        """``scancel`` with these words."""
        self.run(("scancel", *words), user=user)

    def scontrol(self, *words: str, user: str = "root") -> str:
        """What ``scontrol`` says."""
        return self.run(("scontrol", *words), user=user).stdout

    def cancel_all(self) -> None:
        """Ends every job, and returns when all nodes are idle again and none of them has anything left of a job."""
        jobs = self.run(("squeue", "-h", "-t", "all", "-o", "%A %T"), user="root").stdout.split()
        alive = sorted({job for job, state in zip(jobs[::2], jobs[1::2], strict=True) if state not in ENDED})
        if alive:
            self.run(("scancel", *alive), user="root")
        self.wait_idle()

    # ------------------------------------------------------------------------------------------- nodes

    def processes(self, node: str) -> tuple[Process, ...]:
        """All processes on the node."""
        return processes_like(self.init(node), "net" if node == "login" else "pid")

    def job_processes(self, node: str) -> tuple[Process, ...]:
        """Those which belong to jobs or to commands of tests: neither the node's init nor daemons of Slurm."""
        own = {self.init(node)}
        return tuple(one for one in self.processes(node) if one.pid not in own and not is_of_the_node(one.command))

    def wait_idle(self, *nodes: str, timeout_s: float = 60) -> None:
        """Returns when these nodes (all if none is given) are idle and nothing of any job runs there."""
        wanted = nodes or self.nodes
        until = time.monotonic() + timeout_s
        while True:
            states = self._states()
            left = {node: self.job_processes(node) for node in wanted}
            if all(states.get(node) == "idle" for node in wanted) and not any(left.values()):
                return
            if time.monotonic() > until:
                raise ClusterError(f"not idle within {timeout_s} s: {states} {left}")
            time.sleep(0.1)

    def _states(self) -> dict[str, str]:
        words = self.run(("sinfo", "-h", "-N", "-o", "%N %T"), user="root").stdout.split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def kill_node(self, node: str) -> None:
        """A power failure: everything on the node is gone at once. Slurm sees it 15 to 35 s later."""
        self.lab("kill-node", node)

    def start_node(self, node: str) -> None:
        """Boots the node again and returns when it is idle and takes tasks."""
        self.lab("start-node", node)
        self.namespaces.hold(self.init(node))
        self.wait_idle(node)
        self.run(("srun", "-N1", "-w", node, "true"), user="root", timeout_s=60)

    def kill_slurmd(self, node: str) -> None:
        """SIGKILL for slurmd. Tasks on the node live on."""
        self.lab("kill-slurmd", node)

    def start_slurmd(self, node: str) -> None:
        """Starts slurmd again; does not wait."""
        self.lab("start-slurmd", node)

    def cut(self, node: str) -> None:
        """Takes the node off the network; its processes live on."""
        self.lab("net", node, "down")

    def reconnect(self, node: str) -> None:
        """Puts the node back on the network."""
        self.lab("net", node, "up")

    # ------------------------------------------------------------------------------------------- files

    def folder_for(self, name: str, user: str | None = None) -> Path:
        """A new empty folder that all nodes see, owned by the user."""
        number = 0
        while (path := self.shared / f"{name}-{number}").exists():
            number += 1
        path.mkdir()
        os.chown(path, *[USERS[user or self.user]] * 2)
        return path

    # ------------------------------------------------------------------------------------------- its own life

    def lab(self, *words: str, timeout_s: float = 60) -> None:
        """A command of `lab/cluster.sh`."""
        said = subprocess.run(
            ["bash", str(LAB), *words],
            env=lab_environment(self.folder, self.options),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        if said.returncode:
            raise ClusterError(f"cluster.sh {' '.join(words)}: {said.stdout}{said.stderr}")


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _said(argv: Sequence[str], node: str, out: str, err: str) -> str:
    return f"on {node}: {shlex.join(argv)}\n{out}{err}"
