"""The benchmark of the clients' transports, on a real server and for a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doc_pages import ROOT

import endcap
from benchmarks.clients import run, tables, transports
from benchmarks.clients.calls import open_transport
from benchmarks.pipelines import services

TRANSPORTS = [
    ("file", "JPEG, gRPC"),
    ("file", "JPEG, HTTP, asyncio"),
    ("file", "tensor, gRPC"),
    ("file", "tensor, CUDA shm"),
    ("tensor", "system shm"),
]
PLAN = replace(
    run.QUICK,
    transports=tuple(transports.find(*each) for each in TRANSPORTS),
    concurrencies=(2,),
    warm_up_s=0.1,
    seconds=0.3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "CLIENTS_REPOSITORY", folder)
        visited: list[str] = []
        document = run.run(PLAN, visited.append)
    assert len(visited) == PLAN.visits == len(TRANSPORTS)
    return document


@pytest.mark.slow
def test_ways_are_verified_and_measured_or_say_why_not(found: dict[str, Any]) -> None:
    assert found["detections"] > 3
    first, *others = found["ways"]
    assert first["note"] == "the others are held to it"
    for transport in others:
        if transport["shared_memory"] == "cuda" and not endcap.cuda_state().devices:
            assert transport["outcome"] == "not measured"
            assert transport["note"]
            continue
        assert transport["note"] == f"equal, {found['detections']} detections"
        (point,) = transport["points"]
        assert point["concurrency"] == 2
        assert point["inferences_per_second"] > 0
        assert point["service_cpu_ms"] + point["client_cpu_ms"] > 0
    assert len(tables.notes(found).rows) == len(TRANSPORTS)


def test_bytes_are_those_of_the_way(found: dict[str, Any]) -> None:
    sent = {
        (transport["comparison"], transport["name"]): transport["wire"]
        for transport in found["ways"]
        if transport["wire"]
    }
    encoded, tensor = found["encoded_bytes"], 3 * 640 * 640 * 4
    assert encoded < sent["file", "JPEG, gRPC"]["up"] < encoded + 2000
    assert tensor < sent["file", "tensor, gRPC"]["up"] < tensor + 2000
    assert sent["tensor", "system shm"]["up"] < 2000
    assert tables.claims(found)[0].holds


def test_another_tensor_than_the_recorded_one_is_found_out(
    found: dict[str, Any], folder: Path
) -> None:
    with services.triton(folder / "models") as running:
        transport = transports.find("tensor", "HTTP")
        address = running.http.removeprefix("http://")
        other = ROOT / "model_repository" / "detect" / "samples" / "shapes_640x427.jpg"
        with (
            open_transport(transport, address, other.read_bytes(), 1) as send_request,
            pytest.raises(Exception, match="the tensor is not the one whose head was recorded"),
        ):
            send_request()
