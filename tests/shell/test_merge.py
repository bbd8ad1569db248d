"""``dd-slurm merge``: all records of all winners, once, in order, in every format; also when it is killed anywhere."""

import csv
import io
import json
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
from returns.pipeline import is_successful

from core.outcome import problems_of
from core.supervise.verdict import Completed
from shell.attempt.results import declare_winner
from shell.merge import merge as merging
from shell.merge.merge import merge_run
from shell.operate.opened import Opened, open_files
from tests.shell.faulty_disk import dies_at_each_call
from tests.shell.operate_world import World, digest
from tests.shell.test_submit_command import RUN

SHARDS = ((0, 4), (4, 3), (7, 3))
"""First record and number of records of the three shards of ten."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def submit(world: World, **output: object) -> None:
    world.site.run_file.write_text(f"{RUN}output: {json.dumps(output)}\n")
    world.submit()


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"n": n, "text": f'a "{n}"\nb', "more": {"x": [n]}} for n in range(first, first + count)]


def jsonl(first: int, count: int) -> dict[str, str | bytes]:
    return {"a.jsonl": "".join(json.dumps(row) + "\n" for row in rows(first, count))}


def parquet(first: int, count: int) -> dict[str, str | bytes]:
    """Two files, of one and of the other rows."""
    made = rows(first, count)
    return {"d/batch_0.parquet": parquet_of(made[:1]), "d/batch_1.parquet": parquet_of(made[1:])}


def parquet_of(made: Sequence[dict[str, object]]) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(made)), file)
    return file.getvalue()


def csv_files(first: int, count: int) -> dict[str, str | bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["n", "text"])
    writer.writerows([row["n"], row["text"]] for row in rows(first, count))
    return {"a.csv": text.getvalue()}


def all_won(world: World, made: object = jsonl) -> None:
    for shard, (first, count) in enumerate(SHARDS):
        world.won(shard, made(first, count))  # type: ignore[operator]


def merged(folder: Path) -> list[int]:
    """The numbers of the records, file by file."""
    found: list[int] = []
    for path in sorted(folder.glob("part-*")):
        if path.suffix == ".parquet":
            found += pyarrow.parquet.read_table(path).column("n").to_pylist()
        elif path.suffix == ".csv":
            with path.open(newline="") as file:
                found += [int(row["n"]) for row in csv.DictReader(file)]
        else:
            found += [json.loads(line)["n"] for line in path.read_text().splitlines()]
    return [int(n) for n in found]


@pytest.mark.parametrize("partitions", [None, 1, 3, 4, 99])
@pytest.mark.parametrize("made", [jsonl, parquet, csv_files])
@pytest.mark.parametrize("written", ["parquet", "jsonl", "csv"])
def test_all_records_once_and_in_order(world: World, made: object, written: str, partitions: int | None) -> None:
    submit(world, format=written, partitions=partitions, require_exact_record_count=True)
    all_won(world, made)
    target = world.root.parent.parent / "merged"
    said = world.say("merge", "--output", str(target), "--json")
    assert said.code == 0, said.err
    assert merged(target) == list(range(10))
    manifest = json.loads(said.out)
    assert (manifest["records"], manifest["format"], manifest["missing"]) == (10, written, [])
    assert len(manifest["files"]) == min(partitions or 1, 10)
    assert sum(file["records"] for file in manifest["files"]) == 10
    assert json.loads((target / "_dd_slurm.json").read_text()) == manifest
    assert not [path for path in target.parent.iterdir() if path.name.startswith("merged.")]
    assert {path.stat().st_mode & 0o077 for path in target.iterdir()} == {0}


def test_values_survive(world: World) -> None:
    submit(world, format="csv")
    all_won(world, parquet)
    target = world.root.parent.parent / "merged"
    assert world.say("merge", "--output", str(target)).code == 0
    with (target / "part-00000-of-00001.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    assert last == {"n": "9", "text": 'a "9"\nb', "more": '{"x":[9]}'}


def test_columns_that_are_empty_or_narrow_in_some_shards_are_widened(world: World) -> None:
    submit(world, format="parquet")
    tables = [
        pyarrow.table({"n": pyarrow.array([0, 1, 2, 3], pyarrow.int32()), "t": pyarrow.nulls(4)}),
        pyarrow.table({"n": pyarrow.array([4, 5, 6], pyarrow.int64()), "t": ["a", "b", "c"]}),
        pyarrow.table({"t": ["d", "e", "f"], "n": pyarrow.array([7, 8, 9], pyarrow.int64())}),
    ]
    for shard, table in enumerate(tables):
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file)
        world.won(shard, {"a.parquet": file.getvalue()})
    target = world.root.parent.parent / "merged"
    assert world.say("merge", "--output", str(target)).code == 0
    read = pyarrow.parquet.read_table(target)
    assert read.column_names == ["n", "t"]
    assert read.column("n").to_pylist() == list(range(10))
    assert read.column("t").to_pylist() == [None] * 4 + list("abcdef")


def test_repeated_it_changes_nothing_and_later_shards_are_another_dataset(world: World) -> None:
    submit(world, format="jsonl")
    for shard, (first, count) in list(enumerate(SHARDS))[:2]:
        world.won(shard, jsonl(first, count))
    target = world.root.parent.parent / "merged"
    said = world.say("merge", "--output", str(target))
    assert said.code == 65
    assert "1 of 3 shards have no result: 2" in said.err
    assert not target.exists()
    assert world.say("merge", "--output", str(target), "--partial").code == 0
    before = digest(target)
    said = world.say("merge", "--output", str(target), "--partial")
    assert (said.code, digest(target)) == (0, before)
    assert "left out: 1 shard without a result" in said.err
    world.won(2, jsonl(7, 3))
    said = world.say("merge", "--output", str(target))
    assert said.code == 65
    assert "it holds another dataset" in said.err
    assert digest(target) == before


def refused(world: World, target: Path, *words: str) -> list[str]:
    said = world.say("merge", "--output", str(target), "--json", *words)
    assert said.code == 65
    return [problem["code"] for problem in json.loads(said.out)["problems"]]


def test_destinations_that_cannot_be(world: World, tmp_path: Path) -> None:
    submit(world, format="jsonl")
    all_won(world)
    for place in (world.root, world.root / "merged", world.root.parent, Path("/")):
        assert refused(world, place) == ["destination-taken"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    assert refused(world, other) == ["destination-taken"]
    assert refused(world, other / "mine.txt") == ["destination-taken"]
    assert digest(other).keys() == {"mine.txt"}
    target = tmp_path / "empty"
    target.mkdir()
    assert world.say("merge", "--output", str(target)).code == 0
    (target / "part-00000-of-00001.jsonl").write_text("changed")
    assert refused(world, target) == ["destination-taken"]


def test_results_that_are_not_what_was_claimed(world: World, tmp_path: Path) -> None:
    submit(world, format="jsonl")
    all_won(world)
    target = tmp_path / "merged"
    file = Path(world.paths.attempt(1, 1).output) / "a.jsonl"
    content = file.read_text()
    file.write_text(content.replace("4", "5"))
    assert refused(world, target) == ["file-differs"]
    file.unlink()
    assert refused(world, target) == ["file-differs"]
    file.write_text(content)
    result = Path(world.paths.attempt(2, 1).result)
    result.write_text(result.read_text() + " ")
    assert refused(world, target) == ["file-differs"]
    Path(world.paths.winner(2)).write_text("{}")
    assert refused(world, target) == ["unreadable"]
    assert not list(tmp_path.glob("merged*"))


def test_rows_are_counted_as_they_are_read(world: World, tmp_path: Path) -> None:
    """A claim whose sum is right and whose files are not."""
    submit(world, format="parquet")
    all_won(world, parquet)
    result, winner = Path(world.paths.attempt(0, 1).result), Path(world.paths.winner(0))
    told = json.loads(result.read_text())
    told["files"][0]["rows"], told["files"][1]["rows"] = 3, 1
    result.write_text(json.dumps(told))
    winner.unlink()
    declare_winner(world.paths, 0, 1)
    assert refused(world, tmp_path / "m") == ["file-differs"]
    assert not (tmp_path / "m").exists()


def test_tables_that_do_not_fit(world: World, tmp_path: Path) -> None:
    submit(world, format="parquet")
    world.won(0, parquet(0, 4))
    world.won(1, csv_files(4, 3))
    world.won(2, {"a.parquet": parquet_of([{"n": "seven", "text": "", "more": {"x": [1]}}] * 3)})
    assert refused(world, tmp_path / "m") == ["columns-differ", "columns-differ"]
    shutil.rmtree(world.paths.shard(1))
    assert refused(world, tmp_path / "m", "--partial") == ["columns-differ"]


def test_an_exact_number_of_records(world: World, tmp_path: Path) -> None:
    submit(world, format="jsonl", require_exact_record_count=True)
    all_won(world)
    shutil.rmtree(world.paths.shard(2))
    world.won(2, jsonl(7, 4))
    assert refused(world, tmp_path / "m") == ["record-count-differs"]


def test_a_late_loser_is_not_merged(world: World, tmp_path: Path) -> None:
    submit(world, format="jsonl")
    all_won(world)
    assert world.attempt(1, Completed(), files=jsonl(4, 3)) == 2
    assert world.say("merge", "--output", str(tmp_path / "m")).code == 0
    assert merged(tmp_path / "m") == list(range(10))


def test_killed_at_any_call_and_begun_again(world: World, tmp_path: Path) -> None:
    """Before and after every single write, rename, link and fsync."""
    submit(world, format="jsonl", partitions=2)
    all_won(world)
    opened = open_files(str(world.root)).unwrap()
    run_before = digest(world.root)
    target = tmp_path / "out" / "merged"
    deaths = 0

    assert is_successful(merge_run(opened, str(_fresh(target)), False))
    whole = digest(target)
    for _ in dies_at_each_call(lambda: merge_run(opened, str(_fresh(target)), False)):
        deaths += 1
        if target.exists():
            assert digest(target) == whole, "what is there is whole"
        assert is_successful(merge_run(opened, str(target), False))
        assert digest(target) == whole
        assert [path.name for path in target.parent.iterdir()] == ["merged"], "nothing is left beside it"
        assert digest(world.root) == run_before
    assert deaths > 30


def _fresh(target: Path) -> Path:
    """The destination, with nothing there: removed by calls that are not counted."""
    os.system(f"rm -rf '{target.parent}'; mkdir '{target.parent}'")
    return target


def _answer(answers: list[object], opened: Opened, target: Path) -> None:
    answers.append(problems_of(merge_run(opened, str(target), False)))


def test_two_at_once(world: World, tmp_path: Path) -> None:
    submit(world, format="jsonl", partitions=5)
    all_won(world)
    opened = open_files(str(world.root)).unwrap()
    target = tmp_path / "out" / "merged"
    target.parent.mkdir()
    for _ in range(10):
        shutil.rmtree(target, ignore_errors=True)
        answers: list[object] = []
        threads = [threading.Thread(target=_answer, args=(answers, opened, target)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [(), (), ()]
        assert merged(target) == list(range(10))
        assert [path.name for path in target.parent.iterdir()] == ["merged"]


def test_a_full_disk(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(world, format="jsonl")
    all_won(world)

    def full(*_: object) -> object:
        raise OSError(28, "No space left on device", "part")

    with monkeypatch.context() as patched:
        patched.setattr(merging, "open_sink", full)
        assert refused(world, tmp_path / "m") == ["unwritable"]
    assert world.say("merge", "--output", str(tmp_path / "m")).code == 0
