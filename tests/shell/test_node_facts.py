"""A node reports what is there instead of failing."""

import errno
import os
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from core.plan.facts import Devices, FactsRequest, NodeFacts, PathFact, PathWanted
from core.units import NodeName
from shell.facts import limits, network, sockets, versions
from shell.facts.devices import granted_devices
from shell.facts.node import Rehearsed, gather, own_name, report_facts
from shell.facts.paths import look_at_all, path_facts

NODE = NodeName("c1")


def ask(folder: Path, **different: object) -> FactsRequest:
    ordinary: Mapping[str, object] = {
        "paths": [],
        "executables": [],
        "ask_vllm_version": False,
        "output_dir": str(folder),
    }
    return msgspec.convert({**ordinary, **different}, FactsRequest)


def states(*wanted: PathWanted) -> list[str]:
    return [fact.state for fact in path_facts(wanted)]


def test_a_whole_report(tmp_path: Path) -> None:
    request = ask(
        tmp_path / "facts", paths=[{"path": str(tmp_path), "kind": "directory"}], executables=["sh", "no-vllm"]
    )
    (tmp_path / "request.json").write_bytes(msgspec.json.encode(request))
    environ = {"SLURMD_NODENAME": "Compute-001", "PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "2,3"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert report_facts(str(tmp_path / "request.json"), Rehearsed(), environ) == 0
        port = server.getsockname()[1]
    facts = msgspec.json.decode((tmp_path / "facts" / "Compute-001.json").read_bytes(), type=NodeFacts)
    assert facts.node == "Compute-001"
    assert facts.hostname == os.uname().nodename
    assert port in facts.taken_ports
    assert facts.ephemeral_low < facts.ephemeral_high
    assert facts.devices.mask == "2,3"
    assert facts.cpus == len(os.sched_getaffinity(0))
    assert facts.memory_mib > 0
    assert facts.shm_mib > 0
    assert 0 < facts.nofile_soft <= facts.nofile_hard
    assert facts.python_version == ".".join(map(str, sys.version_info[:3]))
    assert facts.vllm_version is None
    assert [(Path(fact.path).name, fact.kind, fact.state) for fact in facts.paths] == [
        (tmp_path.name, "directory", "fine"),
        ("sh", "executable", "fine"),
        ("no-vllm", "executable", "missing"),
    ]


def test_a_rehearsal_says_what_it_is_told(tmp_path: Path) -> None:
    facts = gather(ask(tmp_path), NODE, Rehearsed(address="127.0.1.7", devices=3), {})
    assert [(one.interface, one.address) for one in facts.addresses] == [("lo", "127.0.1.7")]
    assert facts.devices == Devices(variable="CUDA_VISIBLE_DEVICES", mask="0,1,2", present=None)


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [(None, os.EX_UNAVAILABLE, "No such file"), (b"{", os.EX_DATAERR, "truncated"), (b"[]", os.EX_DATAERR, "object")],
)
def test_a_request_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, code: int, said: str
) -> None:
    path = tmp_path / "request.json"
    if content is not None:
        path.write_bytes(content)
    assert report_facts(str(path), Rehearsed(), {}) == code
    assert said in capsys.readouterr().err


def test_an_answer_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "request.json").write_bytes(msgspec.json.encode(ask(tmp_path / "file" / "facts")))
    assert report_facts(str(tmp_path / "request.json"), Rehearsed(), {}) == os.EX_UNAVAILABLE
    assert "file/facts: Not a directory" in capsys.readouterr().err


def test_the_node_is_called_as_slurm_calls_it() -> None:
    assert own_name({"SLURMD_NODENAME": "C1"}) == "C1"
    assert own_name({}) == os.uname().nodename


def test_states_of_paths(tmp_path: Path) -> None:
    file, script = tmp_path / "weights.gguf", tmp_path / "vllm"
    file.write_text("x")
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "dangling").symlink_to("nowhere")
    found = path_facts(
        [
            PathWanted(path=str(file), kind="file"),
            PathWanted(path=str(tmp_path), kind="directory"),
            PathWanted(path=str(script), kind="executable"),
            PathWanted(path=str(tmp_path / "none"), kind="directory"),
            PathWanted(path=str(tmp_path / "dangling"), kind="file"),
            PathWanted(path=str(file / "below"), kind="file"),
            PathWanted(path=str(tmp_path), kind="file"),
            PathWanted(path=str(file), kind="directory"),
            PathWanted(path=str(file), kind="executable"),
        ]
    )
    expected = ["fine", "fine", "fine", "missing", "missing", "missing", "wrong-type", "wrong-type", "unreadable"]
    assert [fact.state for fact in found] == expected
    assert found[6].detail == "it is a directory"
    assert found[8].detail == "[EACCES] it may not be executed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_another_user_may_not_read(tmp_path: Path) -> None:
    for name in ("closed", "entered"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o600)
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        found = path_facts(
            [
                PathWanted(path=str(tmp_path / "secret"), kind="file"),
                PathWanted(path=str(tmp_path / "closed"), kind="directory"),
                PathWanted(path=str(tmp_path / "closed" / "model"), kind="directory"),
            ]
        )
    finally:
        os.seteuid(0)
    assert [fact.state for fact in found] == ["unreadable"] * 3


def test_a_mount_that_does_not_answer_holds_nothing_up() -> None:
    """The second path hangs for as long as the test; the first and the third are still told."""
    answer = threading.Event()

    def look(wanted: PathWanted) -> PathFact:
        if wanted.path == "/hangs":
            answer.wait()
        return PathFact(path=wanted.path, kind=wanted.kind, state="fine")

    wanted = [PathWanted(path=path, kind="directory") for path in ("/first", "/hangs", "/third")]
    found = look_at_all(wanted, look, within_s=0.05)
    answer.set()
    assert [fact.state for fact in found] == ["fine", "stale", "fine"]
    assert found[1].detail == "no answer within 0.05 s"


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ENOTCONN])
def test_a_mount_that_has_gone_is_stale(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(path: str) -> os.stat_result:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("shell.facts.paths.os.stat", gone)
    assert states(PathWanted(path="/mnt/models", kind="directory")) == ["stale"]


def test_addresses_of_the_loopback_interface() -> None:
    found = {(one.interface, one.address) for one in network.own_addresses()}
    assert ("lo", "127.0.0.1") in found
    assert not any(one.address.startswith(("fe80", "169.254.")) for one in network.own_addresses())


@pytest.mark.parametrize(
    ("text", "family", "expected"),
    [
        ("0100007F", socket.AF_INET, "127.0.0.1"),
        ("00000000000000000000000001000000", socket.AF_INET6, "::1"),
        ("0000000000000000FFFF00000100007F", socket.AF_INET6, "::ffff:127.0.0.1"),
    ],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the kernel spells addresses in the machine's byte order")
def test_the_kernels_spelling_of_addresses(text: str, family: socket.AddressFamily, expected: str) -> None:
    assert sockets.address_of(text, family) == expected


def test_only_listeners_take_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = server.getsockname()[1]
        with (
            socket.create_connection(("127.0.0.1", listening)) as client,
            socket.create_server(("::1", 0), family=socket.AF_INET6) as other,
        ):
            accepted, _ = server.accept()
            found = sockets.listening_ports()
            assert listening in found
            assert other.getsockname()[1] in found
            assert client.getsockname()[1] not in found
            accepted.close()
    assert listening not in sockets.listening_ports()


def fake_devices(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return str(folder)


@pytest.mark.parametrize(
    ("environ", "names", "expected"),
    [
        ({}, (), Devices(variable="CUDA_VISIBLE_DEVICES", mask=None, present=None)),
        (
            {},
            ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"),
            Devices(variable="CUDA_VISIBLE_DEVICES", mask=None, present=2),
        ),
        ({"CUDA_VISIBLE_DEVICES": ""}, (), Devices(variable="CUDA_VISIBLE_DEVICES", mask="", present=None)),
        (
            {"CUDA_VISIBLE_DEVICES": "4,5", "ROCR_VISIBLE_DEVICES": "4,5"},
            ("nvidia4", "nvidia5"),
            Devices(variable="CUDA_VISIBLE_DEVICES", mask="4,5", present=2),
        ),
        (
            {"CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "0,1"},
            ("kfd", "dri/renderD128", "dri/renderD129", "dri/card0"),
            Devices(variable="ROCR_VISIBLE_DEVICES", mask="0,1", present=2),
        ),
        ({}, ("dri/renderD128",), Devices(variable="CUDA_VISIBLE_DEVICES", mask=None, present=None)),
        ({"ROCR_VISIBLE_DEVICES": "1"}, (), Devices(variable="ROCR_VISIBLE_DEVICES", mask="1", present=None)),
    ],
)
def test_devices(tmp_path: Path, environ: Mapping[str, str], names: tuple[str, ...], expected: Devices) -> None:
    assert granted_devices(environ, fake_devices(tmp_path, *names)) == expected


def test_a_device_that_cannot_be_opened_does_not_count(tmp_path: Path) -> None:
    fake_devices(tmp_path, "nvidia0")
    (tmp_path / "nvidia1").symlink_to("gone")
    assert granted_devices({}, str(tmp_path)).present == 1


def test_the_smallest_memory_limit_above_the_process_counts(tmp_path: Path) -> None:
    job = tmp_path / "slurm" / "job_7"
    (job / "step_0").mkdir(parents=True)
    (job / "memory.max").write_text("4294967296\n")
    (job / "step_0" / "memory.max").write_text("max\n")
    (tmp_path / "groups").write_text("0::/slurm/job_7/step_0\n")
    assert list(limits.group_limits(str(tmp_path / "groups"), str(tmp_path))) == [4 << 30]


def test_memory_limits_of_the_first_version(tmp_path: Path) -> None:
    (tmp_path / "memory" / "slurm").mkdir(parents=True)
    (tmp_path / "memory" / "slurm" / "memory.limit_in_bytes").write_text("1048576\n")
    (tmp_path / "groups").write_text("5:cpu,cpuacct:/x\n4:memory:/slurm\n")
    assert list(limits.group_limits(str(tmp_path / "groups"), str(tmp_path))) == [1 << 20]


def test_without_control_groups() -> None:
    assert list(limits.group_limits("/no/such/file", "/no/such/folder")) == []
    assert limits.shm_mib("/no/such/folder") == 0


def script(folder: Path, text: str) -> str:
    path = folder / "vllm"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("0.11.1", "0.11.1"),
        ("vLLM version 0.23.0rc1+cpu", "0.23.0rc1+cpu"),
        ("INFO 11-30 importing\n0.28.0\n\n", "0.28.0"),
        ("no version here", None),
        ("", None),
    ],
)
def test_the_version_that_an_executable_says(tmp_path: Path, printed: str, expected: str | None) -> None:
    assert versions.vllm_version(script(tmp_path, f"#!/bin/sh\nprintf '%s' '{printed}'\n")) == expected


def test_a_version_that_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions.vllm_version(script(tmp_path, "#!/bin/sh\necho 0.11.1; exit 1\n")) is None
    assert versions.vllm_version("/no/such/vllm") is None
    monkeypatch.setattr(versions, "ANSWER_WITHIN_S", 0.05)
    assert versions.vllm_version(script(tmp_path, "#!/bin/sh\nexec sleep 60\n")) is None


def test_the_version_is_that_which_is_installed_for_the_python_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = Path(script(tmp_path / "bin", "#!/bin/sh\ntest $1 = -c && echo 0.32.0+cpu\n")).rename(
        tmp_path / "bin/python3"
    )
    assert versions.vllm_version(script(tmp_path, f"#!{python}\n")) == "0.32.0+cpu"
    python.write_text("#!/bin/sh\ntest $2 = --version && echo 0.33.1\n")
    assert versions.vllm_version(script(tmp_path, f"#!{python}\n")) == "0.33.1", "nothing is installed: it is asked"


def test_the_version_of_the_own_python_needs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", {"vllm": "0.31.0"}.__getitem__)
    assert versions.vllm_version(script(tmp_path, f"#!{sys.executable}\nraise SystemExit(1)\n")) == "0.31.0"
