"""Steps that the client takes itself: the same answers as the ensemble's, on every pipeline."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import extra_networks as extras
import family_networks as families
import jpegs
import numpy as np
import pair_networks as pairs
import pytest
from init_runs import init
from plain_calls import PICTURES as SAMPLES
from running_server import RunningServer, run_server

import endcap
from endcap.client import AsyncDetectionClient, DetectionClient, ImageResult
from endcap.errors import InvalidArgumentError, UnsupportedError

PICTURES = [
    jpegs.photo_jpeg(90, 130, seed=1),
    jpegs.photo_jpeg(64, 48, seed=2),
    jpegs.encode(jpegs.photo(200, 150, seed=3), orientation=6),
]
NETWORKS: dict[str, tuple[families.Network, Sequence[object]]] = {
    "seg": (extras.seg(), ()),
    "rtdetr": (pairs.rtdetr(), ("--num-classes", 4, "--preset", "rtdetr")),
    "classes": (
        families.classifier(metadata={"names": str(dict(enumerate("abcdefg")))}),
        ("--head", "classification", "--preset", "torchvision"),
    ),
}
ENDS = [("client", "client"), ("client", "server"), ("server", "client")]
Detect = Callable[..., list[ImageResult]]


def detect_sync(url: str, images: Sequence[Any], **options: Any) -> list[ImageResult]:
    with DetectionClient(url, **options) as client:
        return list(client.detect(images))


def detect_async(url: str, images: Sequence[Any], **options: Any) -> list[ImageResult]:
    async def ask() -> list[ImageResult]:
        async with AsyncDetectionClient(url, **options) as client:
            return list(await client.detect(images))

    return asyncio.run(ask())


WAYS: dict[str, Detect] = {"sync": detect_sync, "async": detect_async}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Ensembles as `endcap init` writes them, around networks whose scores follow the image."""
    folder = tmp_path_factory.mktemp("steps")
    together = folder / "together"
    together.mkdir()
    for name, (network, options) in NETWORKS.items():
        model = network.write(folder / f"{name}.onnx")
        done = init(model, "--name", name, *options, output=folder / name)
        assert done.exit_code == 0, done.stderr
        for written in (folder / name).iterdir():
            if written.is_dir():
                shutil.move(written, together / written.name)
    with run_server(together) as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


def url_of(server: RunningServer, protocol: str) -> str:
    return f"{protocol}://{server.grpc if protocol == 'grpc' else server.http}"


def found(results: Sequence[ImageResult]) -> list[Any]:
    return [(each.status, each.error, each.found) for each in results]


@pytest.mark.parametrize(
    ("model", "protocol", "way"),
    [
        *(("seg", protocol, way) for protocol in ("grpc", "http") for way in WAYS),
        ("rtdetr", "grpc", "sync"),
        ("classes", "grpc", "sync"),
    ],
)
@pytest.mark.parametrize("shared_memory", ["none", "system"])
@pytest.mark.parametrize("ends", ENDS, ids="/".join)
def test_answers_equal_the_ensembles(
    server: RunningServer, model: str, ends: Any, shared_memory: Any, protocol: str, way: str
) -> None:
    url, (preprocess, postprocess) = url_of(server, protocol), ends
    expected = detect_sync(url, PICTURES, model=model, batch=3)
    assert all(each.ok and len(each.found) > 3 for each in expected)
    given = WAYS[way](
        url,
        PICTURES,
        model=model,
        batch=3,
        shared_memory=shared_memory,
        preprocess=preprocess,
        postprocess=postprocess,
    )
    assert found(given) == found(expected)
    if model == "classes":
        assert all(score.label in [*"abcdefg"] for each in given for score in each.classes)


@pytest.mark.parametrize("shared_memory", ["none", "system"])
@pytest.mark.parametrize("ends", ENDS, ids="/".join)
@pytest.mark.parametrize("model", ["detect", "detect_python"])
def test_the_shipped_ensembles(
    cascade_server: RunningServer, model: str, ends: Any, shared_memory: Any
) -> None:
    url, (preprocess, postprocess) = cascade_server.grpc, ends
    expected = detect_sync(url, SAMPLES, concurrency=1)
    given = detect_sync(
        url,
        SAMPLES,
        model=model,
        concurrency=1,
        shared_memory=shared_memory,
        preprocess=preprocess,
        postprocess=postprocess,
    )
    assert all(each.detections for each in expected)
    assert found(given) == found(expected)


@pytest.mark.parametrize("shared_memory", ["none", "system"])
def test_a_bad_image_fails_alone_and_as_in_the_server(
    server: RunningServer, shared_memory: Any
) -> None:
    images = [PICTURES[0], b"no picture", PICTURES[1], PICTURES[2][:200]]
    options: dict[str, Any] = {"model": "seg", "batch": 4}
    expected = detect_sync(server.grpc, images, **options)
    assert [each.ok for each in expected] == [True, False, True, False]
    options |= {"preprocess": "client", "postprocess": "client"}
    given = detect_sync(server.grpc, images, shared_memory=shared_memory, **options)
    assert found(given) == found(expected)


def test_only_the_network_is_asked(server: RunningServer) -> None:
    counted = {name: server.requests(f"seg_{name}") for name in ("preprocess", "postprocess")}
    whole = server.requests("seg")
    asked = server.requests("seg_detector")
    ends: dict[str, Any] = {"preprocess": "client", "postprocess": "client"}
    detect_sync(server.grpc, PICTURES, model="seg", **ends)
    assert server.requests("seg_detector") == asked + len(PICTURES)
    assert server.requests("seg") == whole
    assert counted == {name: server.requests(f"seg_{name}") for name in counted}


@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_pixels_need_no_jpeg(server: RunningServer, color: Any) -> None:
    pixels = endcap.decode(PICTURES[0])
    given = pixels if color == "rgb" else np.ascontiguousarray(pixels[..., ::-1])
    ends: dict[str, Any] = {"preprocess": "client", "postprocess": "client"}
    (expected,) = detect_sync(server.grpc, PICTURES[:1], model="seg", **ends)
    (result,) = detect_sync(server.grpc, [given], model="seg", color=color, **ends)
    assert result.detections == expected.detections


@pytest.mark.parametrize("model", ["cascade", "cascade_bls", "detect_bls"])
def test_what_is_no_ensemble_is_refused(cascade_server: RunningServer, model: str) -> None:
    with pytest.raises(UnsupportedError, match=f"model '{model}' is no ensemble"):
        DetectionClient(cascade_server.grpc, model=model, preprocess="client")


def test_the_best_classes_are_named_by_the_server_only(server: RunningServer) -> None:
    options: dict[str, Any] = {"model": "classes", "classify": 2}
    expected = detect_sync(server.grpc, PICTURES, **options)
    given = detect_sync(server.grpc, PICTURES, preprocess="client", **options)
    assert found(given) == found(expected)
    assert [len(each.classes) for each in given] == [2, 2, 2]
    with pytest.raises(InvalidArgumentError, match="give postprocess='server'"):
        DetectionClient(server.grpc, postprocess="client", **options)


def test_a_result_says_which_image_its_boxes_are_of(server: RunningServer) -> None:
    """The preset rtdetr ignores EXIF, and `endcap init` tells clients so."""
    for detect in WAYS.values():
        assert all(not each.upright for each in detect(server.grpc, PICTURES, model="rtdetr"))
        assert all(each.upright for each in detect(server.grpc, PICTURES, model="seg"))


def mapped_regions() -> set[str]:
    """Regions that this process maps; /dev/shm also lists those of tests in other processes."""
    return set(re.findall(r"/dev/shm/(endcap-[0-9a-f]{32})", Path("/proc/self/maps").read_text()))


def test_nothing_is_left_in_shared_memory(server: RunningServer) -> None:
    before = mapped_regions()
    ends: dict[str, Any] = {"preprocess": "client", "postprocess": "client"}
    with DetectionClient(server.grpc, model="seg", shared_memory="system", **ends) as client:
        client.detect([*PICTURES, b"no picture"])
        made = mapped_regions() - before
        assert len(made) == 4, "a region for each request"
    assert not {path.name for path in Path("/dev/shm").iterdir()} & made
