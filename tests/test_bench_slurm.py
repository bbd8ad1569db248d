"""The parts of the benchmarks of Slurm work, in a tiny size and without the peer."""

import base64
import json
import struct
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from bench import allocation, failure, many_nodes, scale
from bench.instant_server import answer, first_request, words_after
from bench.marks import Mark, read_marks
from bench.node_meter import started_programs


def test_the_instant_server_understands_both_ways_to_write_an_option() -> None:
    argv = ["serve", "m", "--served-model-name", "a", "b", "--host=127.0.0.1", "--port", "1"]
    assert [words_after(argv, name) for name in ("--served-model-name", "--host", "--port", "--other")] == [
        ["a", "b"],
        ["127.0.0.1"],
        ["1"],
        [],
    ]


def test_the_instant_server_answers_whole_requests_only() -> None:
    whole = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    assert first_request(whole[:-1]) is None
    assert first_request(whole + b"GET") == ("/v1/completions", b"GET")
    assert answer("/v1/models", ["a", "b"])["data"] == [{"id": "a", "object": "model"}, {"id": "b", "object": "model"}]


def test_marks_are_read_in_order_and_only_when_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "marks"
    path.write_text("term 20 7\nlaunched 10 7\nlaun")
    assert read_marks(path) == [Mark("launched", 10, 7), Mark("term", 20, 7)]


def test_programs_are_counted_without_processes_that_were_only_forked() -> None:
    def record(flags: int, name: bytes) -> bytes:
        return struct.pack("<BBHIIIIIIf8H16s", flags, 3, *[0] * 7, 0.0, *[0] * 8, name)

    assert list(started_programs(record(0, b"jq") + record(1, b"bash") + record(0, b"srun")[:30])) == ["jq"]


def test_a_version_of_the_records_that_is_not_known_is_refused() -> None:
    with pytest.raises(OSError, match="version 2"):
        list(started_programs(struct.pack("<BBHIIIIIIf8H16s", 0, 2, *[0] * 7, 0.0, *[0] * 8, b"jq")))


def test_the_peer_is_told_of_every_command_with_a_gpu_of_its_own() -> None:
    told = json.loads(base64.urlsafe_b64decode(failure.peer_spec({"c1": [("a",), ("b",)], "c2": [("c",)]})))
    processes = [[(p["command"], p["gpu_indices"]) for p in node["processes"]] for node in told["nodes"]]
    assert processes == [[(["a"], [0]), (["b"], [1])], [(["c"], [0])]]
    assert told["resolved_gpus_per_node"] == 2


def test_the_table_of_deaths_has_medians_and_worst_cases() -> None:
    text = failure.table({"same node": [1.0, 2.0, 9.0], "idle": 0.5})
    assert text.splitlines()[2:] == ["| same node | 2.0 | 9.0 | 3 |", "| idle | 0.50 | | |"]


def test_the_table_of_an_allocation_compares_medians() -> None:
    quick = allocation.Cost(1, 1, 1, 1, pythons=2, sruns=2, jqs=2, programs=2)
    slow = allocation.Cost(3, 3, 3, 3, pythons=8, sruns=8, jqs=8, programs=8)
    lines = allocation.table(allocation.median([quick, quick, slow]), slow).splitlines()
    assert "| wall, s | 1 | 3 | 3.0 |" in lines
    assert "| srun | 2 | 8 | 4.0 |" in lines
    assert "| srun | 2 |  |  |" in allocation.table(quick, None)


@pytest.mark.slow
def test_a_death_reaches_the_sibling_and_an_idle_worker_is_measured() -> None:
    assert failure.same_node_ms(failure.start_ours) > 0
    assert failure.idle_ms_per_s(failure.start_ours, 0.2) >= 0


@pytest.mark.slow
def test_a_controller_of_nodes_that_are_not_there_starts_all_steps_and_ends() -> None:
    found = scale.measure(3, 0.2)
    assert (found.nodes, found.sruns) == (3, 3)
    assert found.launched_s <= found.ready_s
    assert found.processes > found.sruns
    assert "| `srun`s at once | 3 |" in scale.table([found])


@pytest.mark.slow
def test_made_up_servers_answer_for_their_own_node_only() -> None:
    with scale.controlled(2) as controller:
        controller.until(Path(controller.attempt.bound(1)).exists, "the bound plan")
        with closing(many_nodes.Servers(controller.plan())):
            names = {}
            for replica in controller.plan().deployments[0].replicas:
                port = replica.lanes[0].role.http_port  # type: ignore[union-attr]
                url = f"http://{many_nodes.address_of(replica.index)}:{port}/v1/models"
                with urllib.request.urlopen(url) as said:
                    names[replica.identity] = [model["id"] for model in json.load(said)["data"]]
    assert len(names) == 2
    assert all(identity in listed for identity, listed in names.items())
    assert all(len(set(names) & set(listed)) == 1 for listed in names.values())
