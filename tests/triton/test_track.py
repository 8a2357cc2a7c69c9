"""The backend of tracking: sequences of frames on a real server."""

from __future__ import annotations

import asyncio
import json
import math
import os
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
from tests.support.damage import SHIPPED
from tests.support.doc_pages import ROOT, blocks, run_python
from tests.support.track_scenes import Frame, make_scene, to_detections
from tests.triton import track_calls
from tests.triton.calls import grpc_inputs
from tests.triton.onnx_models import KEEPS_FREED_MEMORY
from tests.triton.running_server import RunningServer, metrics_in_the_guide, wait_for
from tests.triton.track_calls import IDLE_S, ROWS, make_inputs, send, track_here, track_there

PICTURE = SHIPPED / "detect" / "samples" / "shapes_640x427.jpg"
pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(scope="module")
def server(compiled_server: RunningServer) -> RunningServer:
    track_calls.write_all(compiled_server.repository)
    models = ("track", "track_direct", "track_ocsort", "track_idle", "track_few")
    compiled_server.load(*models, "detect", "detect_track", "detect_track_idle")
    return compiled_server


def counted(server: RunningServer, what: str, model: str = "track") -> float:
    return server.metric(f"endcap_track_sequences_{what}_total", model=model)


# --- sequences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["track", "track_direct"])
def test_interleaved_sequences_give_the_ids_of_separate_runs(
    client: grpc_client.InferenceServerClient, server: RunningServer, model: str
) -> None:
    """Sixty-four clients, half of them with texts as ids, each with a frame at a time."""
    started, ended = (counted(server, what, model) for what in ("started", "ended"))
    scenes = [make_scene(seed, frames=25, objects=8) for seed in range(64)]
    names: list[int | str] = [seed + 1 if seed % 2 else f"camera {seed}" for seed in range(64)]
    with ThreadPoolExecutor(64) as pool:
        sent = [
            pool.submit(track_there, client, *each, model=model)
            for each in zip(scenes, names, strict=True)
        ]
        tracked = [each.result() for each in sent]
    assert tracked == [track_here(scene) for scene in scenes]
    assert counted(server, "started", model) - started == 64
    assert counted(server, "ended", model) - ended == 64
    for reason in ("invalid_argument", "internal"):
        assert server.metric("endcap_track_failed_total", model=model, reason=reason) == 0
    if model == "track":  # frames of several sequences in one execution
        assert server.executions(model) < server.requests(model)
    assert server.metrics("track") == metrics_in_the_guide("track")


@KEEPS_FREED_MEMORY
def test_memory_stays_flat_over_many_sequences(
    client: grpc_client.InferenceServerClient, server: RunningServer
) -> None:
    """Sixteen clients send sequences one after the other; docs/tracking.md has a longer run."""
    scene = make_scene(3, frames=5, objects=8)
    expected = track_here(scene)

    def send_sequences(number: int) -> None:
        for turn in range(20):
            assert track_there(client, scene, f"{number} {turn}") == expected

    def growth() -> int:
        before = server.resident_bytes()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(send_sequences, range(16)))
        return server.resident_bytes() - before

    ended = counted(server, "ended")
    # More threads may be at work at once than before, and keep their own memory.
    assert any(growth() < 1 << 20 for _ in range(5))
    assert (counted(server, "ended") - ended) % (16 * 20) == 0


def test_a_preset_gives_the_ids_of_the_library(client: grpc_client.InferenceServerClient) -> None:
    scene = make_scene(3, frames=25, objects=8)
    expected = track_here(scene, "ocsort")
    assert track_there(client, scene, "of a preset", model="track_ocsort") == expected
    assert expected != track_here(scene)


def test_frames_with_time_stamps_are_apart_by_their_time(
    client: grpc_client.InferenceServerClient,
) -> None:
    """Eight of twelve were left out; `frame_rate` is 30, and `frame_index` counts requests."""
    tracker, expected = endcap.Tracker(), []
    numbers = [number for number in range(60) if number % 12 < 4]
    scene = [make_scene(0, frames=60)[number] for number in numbers]
    for index, frame in enumerate(scene):
        timestamp = 1.7e9 + numbers[index] / 30
        tracked = tracker(to_detections(frame), timestamp=timestamp)
        expected.append([each.track_id or -1 for each in tracked])
        ids = send(client, frame, "in time", start=index == 0, timestamp=timestamp)
        assert ids == (expected[-1], index)
    assert expected != track_here(scene)


def damaged(frame: Frame) -> list[Any]:
    inputs = make_inputs(frame)
    inputs[0].set_data_from_numpy(np.array([[-1]], np.int32))
    return inputs


@pytest.mark.parametrize("fails", [False, True])
def test_a_start_flag_begins_again(
    client: grpc_client.InferenceServerClient, server: RunningServer, fails: bool
) -> None:
    """Also on a request that fails, as of a client that was killed and starts with a bad frame."""
    scene, sequence = make_scene(1, frames=6), f"again {fails}"
    ended = counted(server, "ended")
    for number in range(3):
        send(client, scene[number], sequence, start=number == 0)
    if fails:
        with pytest.raises(InferenceServerException, match="num_detections is -1"):
            client.infer("track", damaged(scene[0]), sequence_id=sequence, sequence_start=True)
        given = [send(client, frame, sequence) for frame in scene]
        assert given == [(ids, number) for number, ids in enumerate(track_here(scene))]
    else:
        assert track_there(client, scene, sequence) == track_here(scene)
    # The first one by the start of the second, which has an end flag in one case.
    assert counted(server, "ended") == ended + 2 - fails


def test_an_end_flag_counts_on_a_request_that_fails(
    client: grpc_client.InferenceServerClient, server: RunningServer
) -> None:
    scene = make_scene(1, frames=6)
    send(client, scene[0], "ended", start=True)
    ended = counted(server, "ended")
    with pytest.raises(InferenceServerException, match="num_detections is -1"):
        client.infer("track", damaged(scene[0]), sequence_id="ended", sequence_end=True)
    wait_for(lambda: counted(server, "ended") == ended + 1)
    with pytest.raises(InferenceServerException, match=r"ended to model .* must specify the START"):
        send(client, scene[0], "ended")


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
    before = counted(server, "dropped", "track_idle")
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
            assert counted(server, "dropped", "track_idle") == before
        finally:
            cameras.kill()
            killed = time.monotonic()
    assert cameras.returncode == -signal.SIGKILL
    wait_for(lambda: counted(server, "dropped", "track_idle") - before == 5)
    assert time.monotonic() - killed > IDLE_S - 1
    scene = make_scene(4, frames=3)
    with pytest.raises(InferenceServerException, match="must specify the START flag"):
        send(client, scene[1], "killed 0", model="track_idle")
    ids, index = send(client, scene[1], "killed 0", model="track_idle", start=True, end=True)
    assert (ids, index) == (track_here(scene[1:])[0], 0)


def test_no_more_sequences_than_allowed(client: grpc_client.InferenceServerClient) -> None:
    frame, limit = make_scene(5, frames=4)[0], track_calls.MAX_SEQUENCES
    for number in range(limit):
        send(client, frame, 9000 + number, model="track_few", start=True)
    with pytest.raises(InferenceServerException, match=f"there are {limit} sequences") as raised:
        send(client, frame, 9000 + limit, model="track_few", start=True)
    assert "UNAVAILABLE" in str(raised.value.status())
    send(client, frame, 9000, model="track_few", end=True)
    send(client, frame, 9001 + limit, model="track_few", start=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_detections": np.array([[ROWS + 1]], np.int32)}, "num_detections is 41: there are 4"),
        ({"detection_scores": np.zeros((1, ROWS - 1), np.float32)}, "inputs differ in their image"),
        ({"detection_boxes": np.full((1, ROWS, 4), np.nan, np.float32)}, "box of detection 0 is n"),
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
            inputs = [each for each in make_inputs(frame) if each.name() not in change]
            with pytest.raises(InferenceServerException, match=message):
                client.infer("track", [*inputs, *grpc_inputs(change)], sequence_id=sequence)
        ids, _ = send(client, frame, sequence, start=number == 0)
        assert ids == expected[number]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bad_name", "max_lost_frames"),
        ("bad_limit", "max_sequences is '0'"),
        ("bad_scheduler", "sequence_batching"),
    ],
)
def test_a_config_that_cannot_be_carried_out(
    server: RunningServer, model: str, message: str
) -> None:
    assert message in server.refusal(model)


# --- images in, tracks out ------------------------------------------------------------------------


def test_images_in_detections_with_tracks_out(client: grpc_client.InferenceServerClient) -> None:
    """`detect_track`: the detections of `detect`, and their ids by a tracker of our own."""
    image = PICTURE.read_bytes()
    tracker = endcap.Tracker()
    for number, encoded in enumerate([image[:200], image, image, image[:200], image]):
        inputs = grpc_inputs({"encoded": np.array([[encoded]], object)})
        result = client.infer(
            "detect_track", inputs, sequence_id="shapes", sequence_start=number == 0
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


def test_images_with_time_stamps(client: grpc_client.InferenceServerClient) -> None:
    encoded = np.array([[PICTURE.read_bytes()]], object)
    for seconds, best in ((7.0, 1), (7.1, 1), (99.0, -1)):  # tracks end in a long pause
        inputs = grpc_inputs({"encoded": encoded, "timestamp": np.array([[seconds]])})
        flags = {"sequence_id": "clock", "sequence_start": seconds == 7}
        result = client.infer("detect_track", inputs, **flags)
        assert result.as_numpy("track_ids")[0, 0] == best


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Frames of a picture that moves to the left, in their order; the third one is damaged."""
    folder = tmp_path_factory.mktemp("frames")
    paths = [folder / f"frame_{number:03}.jpg" for number in range(8)]
    with Image.open(PICTURE) as picture:
        for number, path in enumerate(paths):
            picture.crop((6 * number, 0, 560 + 6 * number, 427)).save(path, quality=95)
    paths[2].write_bytes(paths[2].read_bytes()[:300])
    return paths


def test_the_asynchronous_client_tracks(server: RunningServer, frames: list[Path]) -> None:
    """The command below runs the synchronous one."""

    async def run() -> list[ImageResult]:
        async with AsyncDetectionClient(server.grpc, model="detect_track") as client:
            return [result async for result in client.track(frames, sequence="async")]

    ended = counted(server, "ended")
    results = asyncio.run(run())
    assert [result.image for result in results] == [str(frame) for frame in frames]
    assert [result.status for result in results] == [
        "corrupt_image" if number == 2 else "ok" for number in range(8)
    ]
    tracker = endcap.Tracker()
    for result in results:
        expected = tracker(result.detections).track_ids
        if result.ok:
            assert result.detections.track_ids is not None
            np.testing.assert_array_equal(result.detections.track_ids, expected)
    ids = {each.track_id for each in results[-1].detections} - {None}
    assert len(ids) >= 3
    assert ids <= {each.track_id for each in results[0].detections}
    assert counted(server, "ended") == ended + 1


def test_the_client_sends_time_stamps(server: RunningServer, frames: list[Path]) -> None:
    """Every track ends in the long pause; the damaged frame has its time stamp, too."""
    seconds = [1.0, 1.1, 1.2, 1.3, 99.0, 99.1, 99.2, 99.3]
    with DetectionClient(server.grpc, model="detect_track") as client:
        results = list(client.track(frames, sequence="timed", timestamps=seconds))
        too_few = client.track(frames, sequence="short", timestamps=seconds[:2])
        with pytest.raises(
            endcap.InvalidArgumentError, match=r"ended .*frame_002\.jpg is the next"
        ):
            list(too_few)
    tracker = endcap.Tracker()
    for result, second in zip(results, seconds, strict=True):
        if result.ok:
            expected = tracker(result.detections, timestamp=second).track_ids
            np.testing.assert_array_equal(result.detections.track_ids, expected)
    before, after = ({each.track_id for each in results[n].detections} for n in (3, 7))
    assert before & after <= {None}


def test_a_frame_with_a_wrong_time_stamp_is_not_sent(
    server: RunningServer, frames: list[Path]
) -> None:
    """The sequence continues without it, and ends although it is the last one."""
    seconds = [1.0, 1.1, 0.9, 1.1, math.nan, 1.2, math.inf, 1e100]
    ended = counted(server, "ended")
    with DetectionClient(server.grpc, model="detect_track") as client:
        results = list(client.track(frames[3:4] * 8, sequence="wrong", timestamps=seconds))
    assert [n for n, result in enumerate(results) if result.ok] == [0, 1, 5]
    errors = [result.error for result in results if result.status == "invalid_argument"]
    assert len(errors) == 5
    assert errors[0] == "timestamp is 0.9: give finite seconds, after those of the previous frame"
    assert counted(server, "ended") == ended + 1
    tracker = endcap.Tracker()
    for number in (0, 1, 5):
        detections = results[number].detections
        expected = tracker(detections, timestamp=seconds[number]).track_ids
        np.testing.assert_array_equal(detections.track_ids, expected)


def test_frames_that_come_one_by_one_have_their_results_at_once(
    server: RunningServer, frames: list[Path]
) -> None:
    """Over HTTP and with shared memory."""
    tracker, url = endcap.Tracker(), f"http://{server.http}"
    with DetectionClient(url, model="detect_track", shared_memory="system") as client:
        for number, frame in enumerate(frames):
            step = SequenceStep("live", start=number == 0, end=number == len(frames) - 1)
            result = client.detect_one(frame, step=step)
            expected = tracker(result.detections).track_ids
            if result.ok:
                assert result.detections.track_ids is not None
                np.testing.assert_array_equal(result.detections.track_ids, expected)
        after = client.detect_one(frames[0], step=SequenceStep("live"))
        assert "must specify the START flag" in str(after.error)


def test_a_client_begins_again_after_a_pause(server: RunningServer, frames: list[Path]) -> None:
    """The sequence is dropped meanwhile: one frame fails, and the others are a new sequence."""

    def with_a_pause() -> Iterator[Path]:
        for number, frame in enumerate(frames[3:]):
            if number == 2:
                time.sleep(IDLE_S + 3)
            yield frame

    with DetectionClient(server.grpc, model="detect_track_idle") as client:
        results = list(client.track(with_a_pause(), sequence="paused"))
    assert [result.ok for result in results] == [True, False, True, True, True]
    assert "must specify the START flag" in str(results[1].error)
    ids = results[2].detections.track_ids
    assert ids is not None
    assert sorted(ids.tolist()) == list(range(1, len(ids) + 1))  # as in a first frame


def test_a_model_without_tracks_is_refused(server: RunningServer) -> None:
    with (
        DetectionClient(server.grpc, model="detect") as client,
        pytest.raises(endcap.UnsupportedError, match="'detect' has no output track_ids; name a"),
    ):
        client.track([b""], sequence=1)
    with (
        DetectionClient(server.grpc, model="detect_track_idle") as client,
        pytest.raises(endcap.UnsupportedError, match="no input timestamp; leave timestamps out"),
    ):
        client.track([b""], sequence=1, timestamps=[0.0])


def test_a_model_of_sequences_takes_no_images(server: RunningServer, frames: list[Path]) -> None:
    message = "'detect_track' takes the frames of sequences; call track()"
    with DetectionClient(server.grpc, model="detect_track") as client:
        for call in (client.detect, client.detect_stream):
            with pytest.raises(endcap.UnsupportedError, match=message):
                call(frames)
        with pytest.raises(endcap.UnsupportedError, match=message):
            client.detect_one(frames[0])
    for url in (server.grpc, f"http://{server.http}"):
        arguments = ["--url", url, "--model", "detect_track", "--track"]
        refused = endcap_command("infer", frames[0], *arguments)
        assert refused.exit_code == 2
        assert "`endcap infer --model detect --track`" in refused.stderr


def test_infer_tracks_a_folder_of_frames(
    server: RunningServer, frames: list[Path], tmp_path: Path
) -> None:
    arguments = ["--url", server.grpc, "--track"]
    drawn = tmp_path / "drawn"
    done = endcap_command("infer", frames[0].parent, *arguments, "--json", "--draw", drawn)
    assert done.exit_code == 1  # one frame is damaged
    assert "frame_002.jpg (corrupt_image" in done.stderr
    by_track: dict[int, list[float]] = {}
    for result in json.loads(done.stdout):
        for each in result["detections"]:
            by_track.setdefault(each.get("track_id"), []).append(each["box"][0])
    moving = [lefts for track, lefts in by_track.items() if track and len(lefts) == 7]
    assert len(moving) >= 3
    for lefts in moving:  # the picture moves by 6 pixels a frame
        assert lefts == sorted(lefts, reverse=True)
    assert len(list(drawn.iterdir())) == 7
    rows = endcap_command("infer", *frames[:2], *arguments, "--csv").stdout.splitlines()
    assert rows[0].endswith(",track_id")
    assert rows[1].endswith(",1")


def test_the_page_about_tracking(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "tracking_server.md"
    names: dict[str, Any] = {"paths": [str(PICTURE)] * 3}
    for block in blocks(page):
        if block.language == "python":
            local = replace(block, text=block.text.replace("127.0.0.1:8001", server.grpc))
            run_python(local, names)
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "[1 2 3 4 5]"
    assert others == [first] * 5
