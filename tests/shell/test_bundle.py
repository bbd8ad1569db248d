"""One file with our packages and nothing else, for any Python."""

import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec

from shell.bundle import bundle_bytes, write_bundle

FILES = (("shell/__init__.py", b""), ("shell/one.py", b"print('from', __file__)\nBIG = 10**3\n"))


def _run(bundle: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-S", *words], env={"PYTHONPATH": str(bundle)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_same_sources_give_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    first, second = write_bundle(str(tmp_path)), write_bundle(str(tmp_path / "again"))
    assert Path(first).name == Path(second).name
    assert Path(first).read_bytes() == Path(second).read_bytes()
    assert Path(first).stat().st_mode & 0o777 == 0o600


def test_holds_our_packages_only(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_bundle(str(tmp_path))) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"core", "shell"}
    assert "shell/simulate/flags.txt" in names
    assert not [name for name in names if "__pycache__" in name]


def test_commands_run_from_it(tmp_path: Path) -> None:
    bundle = Path(write_bundle(str(tmp_path)))
    site_packages = Path(str(msgspec.__file__)).parents[1]
    words = (
        "-c",
        f"import sys; sys.path.append({str(site_packages)!r}); import shell.worker.serve as m; print(m.__file__)",
    )
    assert _run(bundle, *words).strip() == f"{bundle}/shell/worker/serve.pyc"
    assert _run(bundle, "-m", "shell.node", "--help").startswith("usage: python -m shell.node")


def test_another_python_reads_the_sources(tmp_path: Path) -> None:
    """Byte code of another version is passed over."""
    path = tmp_path / "bundle.zip"
    path.write_bytes(bundle_bytes(iter(FILES)))
    assert _run(path, "-m", "shell.one").strip() == f"from {path}/shell/one.pyc"
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as spoilt:
        for name in archive.namelist():
            content = archive.read(name)
            spoilt.writestr(name, b"\0\0\r\n" + content[4:] if name.endswith(".pyc") else content)
    assert _run(other, "-m", "shell.one").strip() == f"from {other}/shell/one.py"
