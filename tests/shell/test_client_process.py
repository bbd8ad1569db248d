"""The environment of clients and endpoints."""

import pytest

from shell.attempt.client_process import client_environment


def test_1_12_this_machine_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://px:3128")
    monkeypatch.setenv("no_proxy", "site.example")
    monkeypatch.delenv("NO_PROXY", raising=False)
    given = client_environment("/bundle")
    assert given["http_proxy"] == "http://px:3128"
    assert given["NO_PROXY"] == given["no_proxy"] == "site.example,localhost,127.0.0.1"


def test_what_steers_servers_and_steps_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_NTASKS", "PMI_RANK", "CUDA_VISIBLE_DEVICES", "VLLM_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PYTHONPATH", ":/site:")
    given = client_environment("/bundle")
    assert not {"SLURM_NTASKS", "PMI_RANK", "CUDA_VISIBLE_DEVICES", "VLLM_PORT"} & set(given)
    assert given["PYTHONPATH"] == "/bundle:/site"
