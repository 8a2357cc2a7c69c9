"""The backend of tracking: sequences of frames on a real server."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.grpc as grpc_client
from PIL import Image
from tritonclient.utils import InferenceServerException

import endcap
from endcap.client import AsyncDetectionClient, DetectionClient, ImageResult, SequenceStep
from tests.support.cli_runs import endcap as endcap_command
from tests.support.doc_pages import ROOT, blocks, run_python
from tests.support.track_scenes import Frame, make_scene
from tests.triton import track_models
from tests.triton.guide_metrics import names_in_the_guide, names_of, with_prefix
from tests.triton.running_server import RunningServer, run_server, wait_for
from tests.triton.track_calls import ROWS, inputs_of, send, track_here

SAMPLES = track_models.SHIPPED / "detect" / "samples"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("tracking")
    track_models.write_all(folder)
    with run_server(folder, "--model-control-mode=explicit", "--load-model=*") as running:
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as made:
        yield made


def track_there(
    client: grpc_client.InferenceServerClient,
    scene: list[Frame],
    sequence: int | str,
    *,
    model: str = "track",
) -> list[list[int]]:
    tracked = []
    for number, frame in enumerate(scene):
        ids, index = send(
            client,
            frame,
            sequence,
            model=model,
            start=number == 0,
            end=number == len(scene) - 1,
        )
        assert index == number
        tracked.append(ids)
    return tracked


def test_the_guide_has_the_metrics(server: RunningServer) -> None:
    of_backend = with_prefix(names_of(server), "endcap_track_")
    assert of_backend
    assert of_backend == with_prefix(names_in_the_guide(), "endcap_track_")


@pytest.mark.parametrize("model", ["track", "track_direct"])
def test_interleaved_sequences_give_the_ids_of_separate_runs(
    client: grpc_client.InferenceServerClient, server: RunningServer, model: str
) -> None:
    """Sixty-four clients, half of them with texts as ids, each with a frame at a time."""
    started = server.metric("endcap_track_sequences_started_total", model=model)
    scenes = [make_scene(seed, frames=25, objects=8) for seed in range(64)]
    names: list[int | str] = [seed + 1 if seed % 2 else f"camera {seed}" for seed in range(64)]
    with ThreadPoolExecutor(64) as pool:
        tracked = list(
            pool.map(
                lambda pair: track_there(client, pair[0], pair[1], model=model),
                zip(scenes, names, strict=True),
            )
        )
    assert tracked == [track_here(scene) for scene in scenes]
    assert server.metric("endcap_track_sequences_started_total", model=model) - started == 64
    ended = server.metric("endcap_track_sequences_ended_total", model=model)
    assert ended >= 64
    for reason in ("invalid_argument", "internal"):
        assert server.metric("endcap_track_failed_total", model=model, reason=reason) == 0
    if model == "track":  # frames of several sequences in one execution
        assert server.executions(model) < server.requests(model)


@pytest.mark.parametrize("preset", track_models.PRESETS)
def test_presets_give_the_ids_of_the_library(
    client: grpc_client.InferenceServerClient, preset: str
) -> None:
    scene = make_scene(3, frames=25, objects=8)
    expected = track_here(scene, preset)
    assert track_there(client, scene, "of a preset", model=f"track_{preset}") == expected
    assert expected != track_here(scene)


def test_a_start_flag_begins_anew(
    client: grpc_client.InferenceServerClient, server: RunningServer
) -> None:
    scene = make_scene(1, frames=6)
    ended = server.metric("endcap_track_sequences_ended_total", model="track")
    for number in range(3):
        send(client, scene[number], "again", start=number == 0)
    assert track_there(client, scene, "again") == track_here(scene)
    # The first one by the start of the second, which has its end flag.
    assert server.metric("endcap_track_sequences_ended_total", model="track") == ended + 2


def damaged(frame: Frame) -> list[Any]:
    inputs = inputs_of(frame)
    inputs[0].set_data_from_numpy(np.array([[-1]], np.int32))
    return inputs


def test_a_start_flag_counts_on_a_request_that_fails(
    client: grpc_client.InferenceServerClient,
) -> None:
    """As of a camera's client that was killed, and starts again with a bad frame."""
    scene = make_scene(1, frames=6)
    for number in range(3):
        send(client, scene[number], "restarted", start=number == 0)
    with pytest.raises(InferenceServerException, match="num_detections is -1"):
        client.infer("track", damaged(scene[0]), sequence_id="restarted", sequence_start=True)
    expected = track_here(scene)
    for number, frame in enumerate(scene):
        assert send(client, frame, "restarted") == (expected[number], number)


def test_an_end_flag_counts_on_a_request_that_fails(
    client: grpc_client.InferenceServerClient, server: RunningServer
) -> None:
    scene = make_scene(1, frames=6)
    send(client, scene[0], "ended", start=True)
    ended = server.metric("endcap_track_sequences_ended_total", model="track")
    with pytest.raises(InferenceServerException, match="num_detections is -1"):
        client.infer("track", damaged(scene[0]), sequence_id="ended", sequence_end=True)
    wait_for(
        lambda: server.metric("endcap_track_sequences_ended_total", model="track") == ended + 1
    )


def test_an_ended_sequence_needs_a_start(client: grpc_client.InferenceServerClient) -> None:
    scene = make_scene(2, frames=4)
    track_there(client, scene, 7001)
    with pytest.raises(InferenceServerException, match=r"7001 to model .* must specify the START"):
        send(client, scene[0], 7001)


def test_a_request_of_no_sequence_is_refused(client: grpc_client.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match="must specify a non-zero"):
        send(client, make_scene(3, frames=4)[0], 0, start=True)


def dropped(server: RunningServer) -> float:
    """How many sequences of `track_idle` have been silent for too long."""
    return server.metric("endcap_track_sequences_dropped_total", model="track_idle")


def test_sequences_without_requests_are_dropped(
    client: grpc_client.InferenceServerClient, server: RunningServer
) -> None:
    scene = make_scene(4, frames=3)
    for number in range(5):
        send(client, scene[0], 8000 + number, model="track_idle", start=True)
    before = dropped(server)
    began = time.monotonic()
    wait_for(lambda: dropped(server) - before == 5, timeout_s=track_models.IDLE_S + 10)
    assert time.monotonic() - began > track_models.IDLE_S - 1
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        send(client, scene[1], 8000, model="track_idle")
    ids, index = send(client, scene[1], 8000, model="track_idle", start=True, end=True)
    assert (ids, index) == (track_here(scene[1:])[0], 0)


# Frames of five sequences in turn, a line for each response. Then it waits to be killed: a request
# that is given up over gRPC can end the server of 24.10 (docs/security.md).
CAMERAS = """
import sys
import tritonclient.grpc as grpc_client
from tests.triton.track_calls import send
from tests.support.track_scenes import make_scene

scene = make_scene(4)
with grpc_client.InferenceServerClient(sys.argv[1]) as client:
    for number in range(10):
        frame = scene[number % len(scene)]
        for camera in range(5):
            send(client, frame, f"killed {camera}", model="track_idle", start=number == 0)
            print(number, flush=True)
    sys.stdin.read()
"""


def test_sequences_of_a_killed_client_are_dropped(
    client: grpc_client.InferenceServerClient, server: RunningServer
) -> None:
    before = dropped(server)
    started = server.metric("endcap_track_sequences_started_total", model="track_idle")
    with subprocess.Popen(
        [sys.executable, "-c", CAMERAS, server.grpc],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as cameras:
        assert cameras.stdout is not None  # PIPE above
        try:
            for _ in range(50):
                assert cameras.stdout.readline(), "the client has ended by itself"
            assert dropped(server) == before
        finally:
            cameras.kill()
            killed = time.monotonic()
    assert cameras.returncode == -signal.SIGKILL
    wait_for(lambda: dropped(server) - before == 5, timeout_s=track_models.IDLE_S + 10)
    assert time.monotonic() - killed > track_models.IDLE_S - 1
    assert server.metric("endcap_track_sequences_started_total", model="track_idle") == started + 5
    scene = make_scene(4, frames=3)
    for camera in range(5):
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            send(client, scene[1], f"killed {camera}", model="track_idle")
    ids, index = send(client, scene[1], "killed 0", model="track_idle", start=True, end=True)
    assert (ids, index) == (track_here(scene[1:])[0], 0)


def test_no_more_sequences_than_allowed(client: grpc_client.InferenceServerClient) -> None:
    frame = make_scene(5, frames=4)[0]
    most = track_models.MOST
    for number in range(most):
        send(client, frame, 9000 + number, model="track_few", start=True)
    with pytest.raises(InferenceServerException, match=f"there are {most} sequences") as raised:
        send(client, frame, 9000 + most, model="track_few", start=True)
    assert "UNAVAILABLE" in str(raised.value.status())
    send(client, frame, 9000, model="track_few", end=True)
    send(client, frame, 9001 + most, model="track_few", start=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"num_detections": np.array([[ROWS + 1]], np.int32)},
            "num_detections is 41: there are 40",
        ),
        ({"num_detections": np.array([[-1]], np.int32)}, "num_detections is -1"),
        (
            {"detection_scores": np.zeros((1, ROWS - 1), np.float32)},
            "inputs differ in their images",
        ),
        (
            {"detection_boxes": np.full((1, ROWS, 4), np.nan, np.float32)},
            "box of detection 0 is not",
        ),
    ],
)
def test_a_frame_that_cannot_be_read_leaves_the_tracks_alone(
    client: grpc_client.InferenceServerClient, change: dict[str, npt.NDArray[Any]], message: str
) -> None:
    scene = [frame for frame in make_scene(6, frames=8) if len(frame.scores)]
    expected = track_here(scene)
    sequence = f"damaged {message}"
    for number, frame in enumerate(scene):
        if number == 4:
            inputs = inputs_of(frame)
            for tensor in inputs:
                if tensor.name() in change:
                    array = change[tensor.name()]
                    tensor.set_shape(array.shape)
                    tensor.set_data_from_numpy(array)
            with pytest.raises(InferenceServerException, match=message):
                client.infer("track", inputs, sequence_id=sequence)
        ids, _ = send(client, frame, sequence, start=number == 0)
        assert ids == expected[number]


def test_frames_of_a_stream(server: RunningServer) -> None:
    """Over one gRPC stream, as a camera would send them."""
    scene = make_scene(7, frames=30)
    came: queue.Queue[Any] = queue.Queue()
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: came.put((result, error)))
        tracked = []
        for number, frame in enumerate(scene):
            client.async_stream_infer(
                "track",
                inputs_of(frame),
                sequence_id="stream",
                sequence_start=number == 0,
                sequence_end=number == len(scene) - 1,
            )
            result, error = came.get(timeout=30)
            assert error is None
            tracked.append(result.as_numpy("track_ids")[0, : len(frame.scores)].tolist())
        client.stop_stream()
    assert tracked == track_here(scene)


def test_images_in_detections_with_tracks_out(
    client: grpc_client.InferenceServerClient,
) -> None:
    """`detect_track`: the detections of `detect`, and their ids by a tracker of our own."""
    image = (SAMPLES / "shapes_640x427.jpg").read_bytes()
    tracker = endcap.Tracker()
    for number, encoded in enumerate([image[:200], image, image, image[:200], image]):
        tensor = grpc_client.InferInput("encoded", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[encoded]], object))
        result = client.infer(
            "detect_track", [tensor], sequence_id="shapes", sequence_start=number == 0
        )
        count = int(result.as_numpy("num_detections")[0, 0])
        names = ("detection_boxes", "detection_scores", "detection_classes")
        boxes, scores, classes = (result.as_numpy(name)[0, :count] for name in names)
        numbers = np.arange(count, dtype=np.int32)
        expected = tracker(endcap.ImageDetections(boxes, scores, classes, numbers)).track_ids
        assert expected is not None
        np.testing.assert_array_equal(result.as_numpy("track_ids")[0, :count], expected)
        assert result.as_numpy("frame_index")[0, 0] == number
        status = int(result.as_numpy("status")[0, 0])
        if encoded is not image:  # no detections, and the sequence goes on
            assert (status, count) == (endcap.Status.CORRUPT_IMAGE, 0)
            continue
        assert (status, count > 3) == (endcap.Status.OK, True)
        if number > 1:  # a second frame has confirmed the tracks
            assert sorted(expected.tolist()) == list(range(1, count + 1))
        plain = client.infer("detect", [tensor])
        np.testing.assert_array_equal(plain.as_numpy("detection_boxes")[0, :count], boxes)


def shifted(folder: Path, count: int) -> list[Path]:
    """Frames of a picture that moves to the left, in their order; the third one is damaged."""
    folder.mkdir()
    with Image.open(SAMPLES / "shapes_640x427.jpg") as picture:
        picture.load()
    frames = []
    for number in range(count):
        frames.append(folder / f"frame_{number:03}.jpg")
        picture.crop((6 * number, 0, 560 + 6 * number, 427)).save(frames[-1], quality=95)
    frames[2].write_bytes(frames[2].read_bytes()[:300])
    return frames


def track_with(url: str, frames: Any, sequence: int | str) -> list[ImageResult]:
    with DetectionClient(url, model="detect_track") as client:
        return list(client.track(frames, sequence=sequence))


def track_with_asyncio(url: str, frames: Any, sequence: int | str) -> list[ImageResult]:
    async def run() -> list[ImageResult]:
        async with AsyncDetectionClient(url, model="detect_track") as client:
            return [result async for result in client.track(frames, sequence=sequence)]

    return asyncio.run(run())


@pytest.mark.parametrize("run", [track_with, track_with_asyncio])
def test_clients_track(server: RunningServer, tmp_path: Path, run: Any) -> None:
    frames = shifted(tmp_path / "frames", 8)
    ended = server.metric("endcap_track_sequences_ended_total", model="track")
    results = run(server.grpc, frames, f"client {run.__name__}")
    assert [result.image for result in results] == [str(frame) for frame in frames]
    assert [result.status for result in results] == [
        "corrupt_image" if number == 2 else "ok" for number in range(8)
    ]
    tracker = endcap.Tracker()
    for result in results:
        detections = result.detections
        expected = tracker(detections).track_ids
        if result.ok:
            assert detections.track_ids is not None
            np.testing.assert_array_equal(detections.track_ids, expected)
            assert "tracks" in repr(detections)
    ids = {each.track_id for each in results[-1].detections} - {None}
    assert len(ids) >= 3
    assert ids <= {each.track_id for each in results[0].detections}
    assert server.metric("endcap_track_sequences_ended_total", model="track") == ended + 1


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_frames_that_come_one_by_one_have_their_results_at_once(
    server: RunningServer, tmp_path: Path, protocol: str
) -> None:
    frames = shifted(tmp_path / "frames", 5)
    url = {"grpc": server.grpc, "http": f"http://{server.http}"}[protocol]
    ended = server.metric("endcap_track_sequences_ended_total", model="track")
    tracker = endcap.Tracker()
    with DetectionClient(url, model="detect_track", shared_memory="system") as client:
        for number, frame in enumerate(frames):
            step = SequenceStep(f"live {protocol}", start=number == 0, end=number == 4)
            result = client.detect_one(frame, step=step)
            expected = tracker(result.detections).track_ids
            if result.ok:
                assert result.detections.track_ids is not None
                np.testing.assert_array_equal(result.detections.track_ids, expected)
        assert server.metric("endcap_track_sequences_ended_total", model="track") == ended + 1
        after = client.detect_one(frames[0], step=SequenceStep(f"live {protocol}"))
        assert "must specify the START flag" in str(after.error)


def test_a_client_begins_anew_after_a_pause(server: RunningServer, tmp_path: Path) -> None:
    """The sequence is dropped meanwhile: one frame fails, and the others are a new sequence."""
    frames = shifted(tmp_path / "frames", 8)[3:]

    def with_a_pause() -> Iterator[Path]:
        for number, frame in enumerate(frames):
            if number == 2:
                time.sleep(track_models.IDLE_S + 3)
            yield frame

    with DetectionClient(server.grpc, model="detect_track_idle") as client:
        results = list(client.track(with_a_pause(), sequence="paused"))
    assert [result.ok for result in results] == [True, False, True, True, True]
    assert "must specify the START flag" in str(results[1].error)
    ids = results[2].detections.track_ids
    assert ids is not None
    assert sorted(ids.tolist()) == list(range(1, len(ids) + 1))  # as in a first frame


def test_clients_refuse_what_cannot_be_tracked(server: RunningServer) -> None:
    with (
        DetectionClient(server.grpc, model="detect") as client,
        pytest.raises(endcap.UnsupportedError, match="'detect' has no output track_ids; name a"),
    ):
        client.track([b""], sequence=1)
    with (
        DetectionClient(f"http://{server.http}", model="detect_track") as client,
        pytest.raises(endcap.UnsupportedError, match="streams over gRPC only"),
    ):
        client.track([b""], sequence=1)
    with (
        DetectionClient(server.grpc, model="detect_track") as client,
        pytest.raises(endcap.InvalidArgumentError, match="is no id of a sequence"),
    ):
        client.track([b""], sequence=0)


def test_infer_tracks_a_folder_of_frames(server: RunningServer, tmp_path: Path) -> None:
    frames = shifted(tmp_path / "frames", 6)
    to_server = ["--url", server.grpc, "--sequence", "folder"]
    done = endcap_command(
        "infer", frames[0].parent, *to_server, "--json", "--draw", tmp_path / "drawn"
    )
    assert done.exit_code == 1  # one frame is damaged
    assert "frame_002.jpg (corrupt_image" in done.stderr
    results = json.loads(done.stdout)
    by_track: dict[int, list[float]] = {}
    for result in results:
        for each in result["detections"]:
            by_track.setdefault(each.get("track_id"), []).append(each["box"][0])
    moving = [lefts for track, lefts in by_track.items() if track and len(lefts) == 5]
    assert len(moving) >= 3
    for lefts in moving:  # the picture moves by 6 pixels a frame
        assert lefts == sorted(lefts, reverse=True)
    assert len(list((tmp_path / "drawn").iterdir())) == 5
    table = endcap_command("infer", *frames[:2], *to_server)
    assert "#1 " in table.stdout
    rows = endcap_command("infer", *frames[:2], *to_server, "--csv").stdout.splitlines()
    assert rows[0].endswith(",track_id")
    assert rows[1].endswith(",1")
    other = endcap_command("infer", frames[0], *to_server, "--model", "preprocess")
    assert other.exit_code == 2


def test_infer_gives_images_the_ids_of_the_server(server: RunningServer, tmp_path: Path) -> None:
    """By --track, with four requests in flight, as by --sequence."""
    frames = shifted(tmp_path / "frames", 6)
    found = []
    for options in (["--track"], ["--sequence", "the same"]):
        arguments = ["--url", server.grpc, *options, "--json", "--draw", tmp_path / options[0][2:]]
        results = json.loads(endcap_command("infer", frames[0].parent, *arguments).stdout)
        assert [result["image"] for result in results] == list(map(str, frames))
        found.append([result["detections"] for result in results])
        assert len(list((tmp_path / options[0][2:]).iterdir())) == 5
    assert found[0] == found[1]
    assert any("track_id" in each for result in found[0] for each in result)


def test_the_page_about_tracking(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "tracking.md"
    python = [block for block in blocks(page) if block.language == "python"]
    names: dict[str, Any] = {"paths": [str(SAMPLES / "shapes_640x427.jpg")] * 3}
    compared = 0
    for block in python:
        local = replace(block, text=block.text.replace("127.0.0.1:8001", server.grpc))
        compared += run_python(local, names)
    assert compared >= 5
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "[1 2 3 4 5]"
    assert others == [first] * 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"max_lost_frames"', '"max_lost_frame"', "did you mean max_lost_frames|max_lost_frames"),
        ('string_value: "30"', 'string_value: "-1"', "max_lost_frames"),
        ('string_value: "1000"', 'string_value: "0"', "max_sequences is '0'"),
        ("sequence_batching {", "dynamic_batching {", "sequence_batching"),
    ],
)
def test_a_config_that_cannot_be_carried_out(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    track_models.write_all(tmp_path)
    config = (tmp_path / "track" / "config.pbtxt").read_text()
    assert old in config
    changed = config.replace(old, new)
    if new.startswith("dynamic"):
        head, _, rest = config.partition("sequence_batching {")
        changed = head + "dynamic_batching { }\n" + rest.partition("}\n}\n")[2]
    (tmp_path / "track" / "config.pbtxt").write_text(changed)
    with run_server(tmp_path, "--model-control-mode=explicit", "--load-model=track") as running:
        reason = running.index()["track"]["reason"]
    assert any(each in reason for each in message.split("|")), reason
