"""The model `video` on the real server: results, limits, cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

import endcap
from endcap.client import AsyncDetectionClient, DetectionClient, ImageResult
from endcap.errors import EndcapError
from endcap.triton.model_config import set_parameter
from endcap.video.reader import VideoReader
from tests.support.damage import SHIPPED, copy_model
from tests.support.doc_pages import blocks, run_python
from tests.support.videos import encode, moving_frames
from tests.triton.plain_calls import assert_close, detect_in_python
from tests.triton.running_server import RunningServer, run_server, wait_for

FRAMES = moving_frames(24)
CLIP = encode(FRAMES, options={"g": "8"})
LONG = encode(FRAMES * 20)


MAX_FRAMES = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server: streams to other models can end decoupled ones, such as `video`.

    `video_small` has low limits, `video_short` takes a second, `video_one` takes one
    request at a time, `video_limited` calls a model that fails for the clip's frames, and
    `video_strict` one that refuses requests.
    """
    repository = tmp_path_factory.mktemp("videos")
    for model in ("detect", "preprocess", "detector", "postprocess", "video"):
        copy_model(model, repository)
    write_variant(repository, "video_small", max_frames=MAX_FRAMES, max_file_bytes=len(LONG) - 1)
    write_variant(repository, "video_short", max_seconds=1)
    write_variant(repository, "video_one", max_videos=1)
    for name, parameters in (
        # What costs more than a millisecond waits for the one before it, or is refused.
        ("strict", {"max_queue_cost": 1, "threads": 1}),
        ("limited", {"max_pixels": 100_000}),
    ):
        write_variant(repository, f"preprocess_{name}", "preprocess", **parameters)
        write_variant(repository, f"video_{name}", model=f"detect_{name}")
        config = copy_model("detect", repository, name=f"detect_{name}") / "config.pbtxt"
        step = 'model_name: "preprocess"'
        assert config.read_text().count(step) == 1
        config.write_text(config.read_text().replace(step, f'model_name: "preprocess_{name}"'))
    # The configs are whole; completing them would start each Python model twice.
    with run_server(repository, "--disable-auto-complete-config") as running:
        running.expect_all()
        yield running


def write_variant(
    repository: Path, name: str, model_name: str = "video", **parameters: object
) -> None:
    """Copy a shipped model under another name, with other parameters."""
    config = copy_model(model_name, repository, name=name) / "config.pbtxt"
    text = config.read_text()
    for parameter, value in parameters.items():
        text = set_parameter(text, parameter, str(value))
    config.write_text(text)


def read(
    server: RunningServer, video: Any, model: str = "video", **options: Any
) -> list[ImageResult]:
    with DetectionClient(server.grpc, model=model) as client:
        return list(client.video(video, options=options))


def failure(server: RunningServer, video: Any, model: str = "video", **options: Any) -> str:
    """The error message of a video without a frame."""
    (result,) = read(server, video, model, **options)
    assert not result.ok
    assert result.frame is None
    assert result.final
    return f"{result.status}: {result.error}"


def check_frames(results: Sequence[ImageResult], *, frame_rate: float, **reading: Any) -> None:
    """Compare results with those of the library on the same clip."""
    tracker = endcap.Tracker(frame_rate=frame_rate)
    with VideoReader(CLIP, **reading) as reader:
        frames = list(reader)
    detections = detect_in_python([frame.image for frame in frames])
    for result, frame, each in zip(results, frames, detections, strict=True):
        assert result.ok, result
        assert result.frame is not None
        assert (result.frame.index, result.frame.seconds) == (frame.index, frame.seconds)
        assert result.frame.dropped == 0
        expected = tracker(each)
        assert_close(result.detections, expected)
        assert result.detections.track_ids is not None
        assert expected.track_ids is not None
        assert result.detections.track_ids.tolist() == expected.track_ids.tolist()


# --- results --------------------------------------------------------------------------------------


def test_every_frame_has_the_results_of_the_library(server: RunningServer, tmp_path: Path) -> None:
    """Of a path by the asynchronous client; and of some frames, as the reader samples them."""
    path = tmp_path / "clip.mp4"
    path.write_bytes(CLIP)

    async def run() -> list[ImageResult]:
        async with AsyncDetectionClient(server.grpc, model="video") as client:
            return [result async for result in client.video(path)]

    results = asyncio.run(run())
    assert len(results) == len(FRAMES)
    check_frames(results, frame_rate=25)
    assert not any(result.final for result in results), "the last response has no frame"
    assert {result.image for result in results} == {str(path)}
    row = results[3].to_dict()
    assert (row["frame_index"], row["pts_seconds"], row["dropped"]) == (3, 3 / 25, 0)
    check_frames(read(server, CLIP, every=3), frame_rate=25 / 3, every=3)
    (missing,) = read(server, tmp_path / "none.mp4")
    assert missing.status == "unreadable"


def test_options_of_detections_and_tracks(server: RunningServer) -> None:
    plain = read(server, CLIP, track=False, max_frames=5)
    assert len(plain) == 5
    for result in plain:
        assert result.detections.track_ids is not None
        assert (result.detections.track_ids == -1).all()
    scores = np.concatenate([result.detections.scores for result in plain])
    least = float(np.median(scores))
    some = read(server, CLIP, score_threshold=least, max_frames=5)
    kept = np.concatenate([result.detections.scores for result in some])
    np.testing.assert_array_equal(kept, scores[scores >= np.float32(least)])
    assert 0 < len(kept) < len(scores)


def test_a_frame_without_detections_has_one_row_that_does_not_count(server: RunningServer) -> None:
    gray = encode([np.full((240, 320, 3), 128, np.uint8)] * 3)
    responses, errors = stream(server, "video", {"encoded": gray})
    assert errors == []
    assert len(responses) == 4
    for number, response in enumerate(responses[:3]):
        assert response.as_numpy("num_detections").tolist() == [0]
        assert response.as_numpy("detection_boxes").tolist() == [[0, 0, 0, 0]]
        assert response.as_numpy("detection_indices").tolist() == [-1]
        assert response.as_numpy("track_ids").tolist() == [-1]
        assert response.as_numpy("frame_index").tolist() == [number]
        assert response.as_numpy("status").tolist() == [0]
    assert responses[3].get_response().parameters["triton_final_response"].bool_param
    assert all(len(result.detections) == 0 for result in read(server, gray))


def stream(
    server: RunningServer, model: str, inputs: dict[str, bytes]
) -> tuple[list[Any], list[str]]:
    """All responses to a request of NVIDIA's client, the final one included, and its errors."""
    arrived: list[tuple[Any, Any]] = []
    over = threading.Event()

    def take(result: Any, error: Any) -> None:
        arrived.append((result, error))
        if (
            error is not None
            or result.get_response().parameters["triton_final_response"].bool_param
        ):
            over.set()

    tensors = []
    for name, element in inputs.items():
        tensors.append(grpc_client.InferInput(name, [1], "BYTES"))
        tensors[-1].set_data_from_numpy(np.array([element], object))
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.start_stream(take)
        client.async_stream_infer(model, tensors, enable_empty_final_response=True)
        assert over.wait(60)
        client.stop_stream()
    errors = [error.message() for _, error in arrived if error is not None]
    return [result for result, error in arrived if error is None], errors


def test_videos_at_once_do_not_mix(server: RunningServer) -> None:
    def run(clip: bytes) -> list[Any]:
        results = read(server, clip, max_frames=8)
        return [each.to_dict()["detections"] for each in results]

    clips = [CLIP, encode(FRAMES[::-1])]
    expected = [run(clip) for clip in clips]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, clips * 2)) == expected * 2


def test_the_page_about_videos(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("clip.mp4").write_bytes(CLIP)
    names: dict[str, Any] = {}
    compared = 0
    for block in blocks(SHIPPED.parent / "docs" / "video.md"):
        if block.language == "python":
            text = block.text.replace("127.0.0.1:8001", server.grpc)
            compared += run_python(replace(block, text=text), names)
    assert compared >= 7
    about, *lines = capsys.readouterr().out.splitlines()
    assert about == "h264 640 480 25 0.96"
    frames, (of_client, of_plain) = lines[: len(FRAMES)], (lines[-6:-3], lines[-3:])
    assert len(lines) == len(FRAMES) + 6
    assert frames[1].startswith("0.04 s ok [ 1")
    assert [line.split()[0] for line in of_client] == ["0", "8", "16"]
    assert [line.split(maxsplit=1)[1] for line in of_plain] == [
        line.split(maxsplit=2)[2] for line in of_client
    ]


# --- failures -------------------------------------------------------------------------------------


def test_a_frame_that_fails_has_its_status_and_the_video_goes_on(server: RunningServer) -> None:
    results = read(server, CLIP, "video_limited", max_frames=3)
    assert [result.status for result in results] == ["image_limit"] * 3
    assert [result.frame.index for result in results if result.frame is not None] == [0, 1, 2]
    assert not any(result.final for result in results)
    (line,) = wait_for(lambda: server.log_lines("3 frames have failed, the first of them"))
    assert "model 'detect_limited': " in line


@pytest.mark.parametrize(
    ("inputs", "part"),
    [
        ({"encoded": b""}, "input 'encoded' has no bytes"),
        (
            {"encoded": CLIP, "options": b'{"evry": 2}'},
            "option 'evry' does not exist; give rate, every",
        ),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    server: RunningServer, inputs: dict[str, bytes], part: str
) -> None:
    _, (error,) = stream(server, "video", inputs)
    assert error.startswith("invalid_argument: ")
    assert part in error


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("detect", {}, "'detect' does not read videos; name one that does"),
        ("video", {"every": object()}, "cannot be written as JSON"),
    ],
)
def test_the_client_refuses_what_cannot_be(
    server: RunningServer, model: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(EndcapError, match=message):
        read(server, CLIP, model, **options)


# --- limits and cancellation ----------------------------------------------------------------------


def test_the_most_frames(server: RunningServer) -> None:
    results = read(server, CLIP, "video_small")
    assert len(results) == MAX_FRAMES + 1
    assert all(result.ok for result in results[:-1])
    assert results[-1].error is not None
    assert f"more than {MAX_FRAMES} frames" in results[-1].error
    assert len(read(server, CLIP, "video_small", max_frames=MAX_FRAMES)) == (MAX_FRAMES)


def test_the_limits_of_bytes_and_seconds(server: RunningServer) -> None:
    assert "the limit of the parameter max_file_bytes" in failure(server, LONG, "video_small")
    *_, last = read(server, LONG, "video_short")
    assert "more than 1 seconds" in str(last.error)


def there_is_room(client: DetectionClient) -> bool:
    """Whether a model that takes one video takes another; waits for its end."""
    return all(result.ok for result in client.video(CLIP, options={"max_frames": 1}))


def test_the_most_videos_at_a_time(server: RunningServer) -> None:
    with DetectionClient(server.grpc, model="video_one") as client:
        wait_for(lambda: there_is_room(client))
        first = client.video(LONG)
        assert next(first).ok
        (refused,) = client.video(CLIP)
        assert refused.status == "unavailable"
        assert "1 videos are being read already" in str(refused.error)
        first.close()
        wait_for(lambda: there_is_room(client))


def test_a_client_that_stops_ends_the_work(server: RunningServer) -> None:
    with DetectionClient(server.grpc, model="video_one") as client:
        wait_for(lambda: there_is_room(client))
        results = client.video(LONG)
        assert next(results).ok
        results.close()
        frames = server.requests("detect")
        # There is room for one video: this one begins when the other has ended.
        wait_for(lambda: there_is_room(client))
    assert server.requests("detect") - frames < len(FRAMES) * 15, "most were read all the same"
    assert any("video_one" in line for line in server.log_lines("the request was cancelled"))


def test_frames_that_a_called_model_refuses_are_repeated(server: RunningServer) -> None:
    """Four frames at a time, of which the model takes one and lets one wait."""
    noise = np.random.default_rng(3).integers(0, 256, (24, 480, 640, 3), np.uint8)
    labels = {"model": "preprocess_strict", "reason": "queue"}

    def has_refused() -> bool:  # on a busy machine frames may arrive one by one
        results = read(server, encode(noise), "video_strict")
        assert [result.status for result in results] == ["ok"] * len(noise)
        return server.metric("endcap_preprocess_refused_total", **labels) > 0

    wait_for(has_refused, timeout_s=60)
