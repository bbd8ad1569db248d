"""Files that are either old or new, whatever happens in between."""

import os
import stat
import threading
from pathlib import Path

import pytest

from shell.store import append_line, create_once, make_folder, open_journal, write_atomic


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in (b"a long first content", b"short", b""):
        write_atomic(str(path), content)
        assert path.read_bytes() == content
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("call", ["fsync", "write", "replace"])
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.json"
    write_atomic(str(path), b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left"):
            write_atomic(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_a_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left"):
            create_once(str(tmp_path / "winner.json"), b"me")
    assert names(tmp_path) == []


def test_files_and_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(str(tmp_path / "runs" / "r1" / "shards"))
        write_atomic(str(tmp_path / "runs" / "plan.json"), b"{}")
        assert create_once(str(tmp_path / "runs" / "winner.json"), b"{}")
        os.close(open_journal(str(tmp_path / "runs" / "events.jsonl")))
    finally:
        os.umask(before)
    assert [mode(tmp_path / place) for place in ("runs", "runs/r1", "runs/r1/shards")] == [0o700] * 3
    assert {mode(path) for path in (tmp_path / "runs").iterdir() if path.is_file()} == {0o600}


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(str(tmp_path))
    make_folder(f"{tmp_path}/below/")
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "below") == 0o700


def test_exactly_one_of_many_threads_wins(tmp_path: Path) -> None:
    path, crowd = tmp_path / "winner.json", 24
    gate = threading.Barrier(crowd)
    won: list[int] = []
    failed: list[BaseException] = []

    def claim(number: int) -> None:
        gate.wait()
        try:
            if create_once(str(path), b"%d" % number * 10_000):
                won.append(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(10, 10 + crowd)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(won) == 1
    assert path.read_bytes() == b"%d" % won[0] * 10_000
    assert names(tmp_path) == ["winner.json"]


def test_who_comes_second_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "winner.json")
    assert create_once(path, b"first")
    assert not create_once(path, b"second")
    assert Path(path).read_bytes() == b"first"


def test_writers_at_the_same_time_leave_one_whole_content(tmp_path: Path) -> None:
    path, crowd = tmp_path / "a.json", 16
    gate = threading.Barrier(crowd)
    failed: list[BaseException] = []

    def write(number: int) -> None:
        gate.wait()
        try:
            write_atomic(str(path), bytes([number]) * 50_000)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(crowd)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = path.read_bytes()
    assert failed == []
    assert content == content[:1] * 50_000
    assert names(tmp_path) == ["a.json"]


def test_a_link_whose_answer_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link_twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert create_once(str(tmp_path / "winner.json"), b"me")


def test_a_journal_survives_a_half_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2')
    journal = open_journal(str(path))
    append_line(journal, b'{"n": 3}')
    os.close(journal)
    assert path.read_bytes() == b'{"n": 1}\n{"n": 2\n{"n": 3}\n'


def test_a_whole_journal_is_continued_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for number in (1, 2):
        journal = open_journal(str(path))
        append_line(journal, b"%d" % number)
        os.close(journal)
    assert path.read_bytes() == b"1\n2\n"


def test_a_line_is_written_whole_when_the_system_takes_it_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, bytes(content)[:3]))
    journal = open_journal(str(tmp_path / "events.jsonl"))
    append_line(journal, b"0123456789")
    os.close(journal)
    write_atomic(str(tmp_path / "a"), b"0123456789")
    assert (tmp_path / "events.jsonl").read_bytes() == b"0123456789\n"
    assert (tmp_path / "a").read_bytes() == b"0123456789"
