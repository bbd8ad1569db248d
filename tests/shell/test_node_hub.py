"""What a node says about its cache of the hub, about file systems, and about the size of weights."""

import json
import os
import threading
from pathlib import Path

import pytest

from core.plan.facts import HubFact, HubWanted, PathFact
from core.units import Alias
from shell.facts.hub import cache_folder, hub_fact, hub_facts
from shell.facts.mounts import mount_of
from shell.facts.patience import answers
from shell.facts.weights import weight_bytes, with_weights

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WANTED = HubWanted(alias=Alias("m"), model="lab/m", revision=None, variables=())


class Cache:
    """A cache of the hub with one model, as the hub's tool leaves it; links to blobs, as it makes them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.model = folder / "hub" / "models--lab--m"
        self.snapshot = self.model / "snapshots" / COMMIT
        self.snapshot.mkdir(parents=True)
        (self.model / "refs").mkdir()
        (self.model / "refs" / "main").write_text(COMMIT)
        (self.model / "blobs").mkdir()
        for name in ("config.json", "tokenizer.json"):
            self.add(name, "{}")

    def add(self, name: str, content: str) -> None:
        (self.model / "blobs" / name).write_text(content)
        (self.snapshot / name).symlink_to(f"../../blobs/{name}")

    def index(self, *files: str) -> None:
        content = json.dumps({"weight_map": {f"layer{index}": name for index, name in enumerate(files)}})
        self.add("model.safetensors.index.json", content)

    def fact(self, revision: str | None = None, **environ: str) -> HubFact:
        wanted = HubWanted(alias=Alias("m"), model="lab/m", revision=revision, variables=())
        return hub_fact(wanted, {"HF_HOME": str(self.home), **environ})


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def test_a_whole_model(cache: Cache) -> None:
    cache.add("model.safetensors", "x" * 100)
    cache.add("pytorch_model.bin", "x" * 40)
    fact = cache.fact()
    assert (fact.whole, fact.weight_bytes, fact.offline) == (True, 100, False)
    assert fact.cache == f"{cache.home}/hub"


def test_a_model_in_parts_is_whole_when_the_last_part_is_there(cache: Cache) -> None:
    cache.index("a.safetensors", "b.safetensors")
    cache.add("a.safetensors", "x" * 10)
    assert not cache.fact().whole
    cache.add("b.safetensors", "x" * 30)
    assert (cache.fact().whole, cache.fact().weight_bytes) == (True, 40)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("how", ["no link", "no blob"])
def test_without_one_of_these_the_hub_is_asked(cache: Cache, name: str, how: str) -> None:
    cache.add("model.safetensors", "x")
    assert cache.fact().whole
    ((cache.snapshot if how == "no link" else cache.model / "blobs") / name).unlink()
    assert not cache.fact().whole


def test_a_download_that_was_cut_off_is_not_whole(cache: Cache) -> None:
    cache.add("model.safetensors", "x")
    (cache.model / "blobs" / "ab12.incomplete").write_text("x")
    assert not cache.fact().whole


def test_an_index_that_cannot_be_read_is_not_whole(cache: Cache) -> None:
    cache.add("model.safetensors", "x")
    cache.add("model.safetensors.index.json", "{broken")
    assert not cache.fact().whole


def test_code_of_another_repository_is_not_looked_for_here(cache: Cache) -> None:
    cache.add("model.safetensors", "x")
    (cache.model / "blobs" / "config.json").write_text('{"auto_map": {"AutoConfig": "other/code--config.C"}}')
    assert not cache.fact().whole
    (cache.model / "blobs" / "config.json").write_text('{"auto_map": {"AutoConfig": "config.C"}}')
    assert cache.fact().whole


def test_revisions_are_looked_up(cache: Cache) -> None:
    cache.add("model.safetensors", "x")
    assert not cache.fact("v2").whole
    (cache.model / "refs" / "v2").write_text(COMMIT)
    assert cache.fact("v2").whole
    assert cache.fact(COMMIT).whole
    assert not cache.fact("f" * 40).whole


def test_what_the_run_file_sets_counts_before_the_environment(cache: Cache) -> None:
    cache.add("model.safetensors", "x")
    own = HubWanted(alias=Alias("m"), model="lab/m", revision=None, variables=(("HF_HOME", str(cache.home)),))
    assert hub_fact(own, {"HF_HOME": "/elsewhere"}).whole
    assert not hub_fact(WANTED, {"HF_HOME": "/elsewhere"}).whole


@pytest.mark.parametrize(("name", "value"), [("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "true")])
def test_an_environment_that_forbids_downloads_is_told(cache: Cache, name: str, value: str) -> None:
    assert cache.fact(**{name: value}).offline
    assert not cache.fact(**{name: "0"}).offline


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/.cache/huggingface/hub"),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HOME": "/home/me", "HF_HOME": "~/hf"}, "/home/me/hf/hub"),
        ({"HOME": "/home/me", "HF_HOME": "$BASE/hf", "BASE": "/b"}, "/b/hf/hub"),
        ({"HOME": "/home/me", "HF_HOME": "/a", "HUGGINGFACE_HUB_CACHE": "/h"}, "/h"),
        ({"HOME": "/home/me", "HF_HUB_CACHE": "/c", "HUGGINGFACE_HUB_CACHE": "/h"}, "/c"),
    ],
)
def test_the_cache_is_where_the_hub_s_tool_has_it(variables: dict[str, str], folder: str) -> None:
    assert cache_folder(variables) == folder


def test_a_cache_that_does_not_answer_is_left_out() -> None:
    never = threading.Event()
    assert answers([1, 2], lambda number: never.wait(5) if number == 1 else "fine", 0.05) == [None, "fine"]
    never.set()
    assert hub_facts((WANTED,), {"HF_HOME": "/no/such"}, within_s=5)[0].whole is False


TABLE = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:41 /export/home /home rw shared:2 master:3 - nfs4 server:/export rw,vers=4.2
31 22 0:42 / /lustre/my\\040data rw - lustre 10.0.0.1@o2ib:/scratch rw
40 22 0:50 / /tmp rw - tmpfs tmpfs rw
50 22 0:60 / /over rw - ext4 /dev/sdb rw
51 22 0:61 / /over rw - beegfs beegfs_nodev rw
broken line
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "mountinfo").write_text(TABLE)
    return str(tmp_path / "mountinfo")


def place(table: str, path: str, boot: str = "/proc/sys/kernel/random/boot_id") -> tuple[str, str]:
    found = mount_of(path, table, boot)
    return found.filesystem, found.place


def test_a_network_file_system_is_the_same_on_all_nodes(table: str) -> None:
    assert place(table, "/home/me/.cache") == ("nfs4", "server:/export /export/home/me/.cache")
    assert place(table, "/lustre/my data/hub") == ("lustre", "10.0.0.1@o2ib:/scratch /hub")
    assert place(table, "/homes/me")[0] == "ext4"


def test_a_later_mount_hides_an_earlier_one(table: str) -> None:
    assert place(table, "/over/hub") == ("beegfs", "beegfs_nodev /hub")


def test_a_node_s_own_disk_is_told_apart_by_the_machine(table: str, tmp_path: Path) -> None:
    boots = [tmp_path / "boot1", tmp_path / "boot2"]
    for boot in boots:
        boot.write_text(boot.name)
    for path, kind in (("/data/hub", "ext4"), ("/tmp/hub", "tmpfs")):
        places = [place(table, path, str(boot)) for boot in boots]
        assert [name for name, _ in places] == [kind, kind]
        assert places[0] != places[1]
        assert places[0] == place(table, path, str(boots[0]))


def test_without_a_table_the_path_has_to_do() -> None:
    assert place("/no/such/table", "/data/hub") == ("unknown", "/data/hub")


def test_this_machine_s_own_table_can_be_read(tmp_path: Path) -> None:
    assert mount_of(str(tmp_path)).filesystem not in ("", "unknown")
    assert mount_of(str(tmp_path / "not" / "there")).place == f"{mount_of(str(tmp_path)).place}/not/there"


def test_weights_are_of_the_kind_that_is_read(tmp_path: Path) -> None:
    sizes = {"a.safetensors": 5, "b.safetensors": 7, "consolidated.safetensors": 12, "c.bin": 100, "d.gguf": 1000}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "e.safetensors").write_bytes(b"x" * 9)
    assert weight_bytes(str(tmp_path)) == 12
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).unlink()
    assert weight_bytes(str(tmp_path)) == 12, "the second copy, where there is no other"
    (tmp_path / "consolidated.safetensors").unlink()
    assert weight_bytes(str(tmp_path)) == 100
    (tmp_path / "c.bin").unlink()
    assert weight_bytes(str(tmp_path)) == 1000
    assert weight_bytes(str(tmp_path / "d.gguf")) == 1000


def test_no_weights_no_size(tmp_path: Path) -> None:
    assert weight_bytes(str(tmp_path)) is None
    assert weight_bytes(str(tmp_path / "missing")) is None


def test_only_sound_models_are_weighed(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"x" * 3)
    (tmp_path / "vllm").write_text("x")
    fine = PathFact(path=str(tmp_path), kind="directory", state="fine")
    program = PathFact(path=str(tmp_path / "vllm"), kind="executable", state="fine")
    broken = PathFact(path=str(tmp_path), kind="file", state="wrong-type", detail="it is a directory")
    weighed = with_weights([fine, program, broken])
    assert [fact.weight_bytes for fact in weighed] == [3, None, None]
    assert weighed[1:] == [program, broken]
    assert weighed[0].path == os.fspath(tmp_path)
