"""The model `video` on the real server: results, sources, limits, cancellation, attacks."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import threading
import time
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
from tests.support.http_site import Site, content, redirect, run_site
from tests.support.videos import encode, moving_frames
from tests.triton.plain_calls import assert_close, detect_in_python
from tests.triton.running_server import RunningServer, run_server, wait_for

FRAMES = moving_frames(24)
CLIP = encode(FRAMES, options={"g": "8"})
LONG = encode(FRAMES * 20)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with run_site() as running:
        yield running


SECRET = "pa:ss@word"
MAX_FRAMES = 12
MAX_SECONDS = 3
MAX_FILE_BYTES = 400_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[RunningServer]:
    """A separate server: streams to other models can end decoupled ones, such as `video`.

    `video_urls` opens a camera and addresses, `video_small` has low limits, `video_one` takes one
    request at a time, `video_limited` calls a model that fails for the clip's frames, and
    `video_strict` one that refuses requests.
    """
    repository = tmp_path_factory.mktemp("videos")
    for model in ("detect", "preprocess", "detector", "postprocess", "video"):
        copy_model(model, repository)
    prefix = f"http://127.0.0.1:{site.port}/videos/"
    camera = f"gate=http://user:${{GATE_PASSWORD}}@127.0.0.1:{site.port}/private/clip.mp4"
    write_variant(repository, "video_urls", cameras=camera, url_prefixes=prefix)
    limits = {"max_frames": MAX_FRAMES, "max_seconds": MAX_SECONDS, "timeout_s": 2}
    limits |= {"max_file_bytes": MAX_FILE_BYTES}
    write_variant(repository, "video_small", url_prefixes=prefix, **limits)
    write_variant(repository, "video_one", url_prefixes=prefix, max_videos=1)
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATE_PASSWORD", SECRET)
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


def test_what_is_no_video_is_an_error(server: RunningServer) -> None:
    assert "no video that is read here" in failure(server, CLIP[:200])


@pytest.mark.parametrize(
    ("inputs", "part"),
    [
        ({}, "neither of the inputs 'encoded' and 'source'"),
        ({"encoded": CLIP, "source": b"http://a/b"}, "both of the inputs"),
        ({"encoded": CLIP, "options": b'{"evry": 2}'}, "did you mean 'every'?"),
        ({"source": b"\xff"}, "input 'source' is no UTF-8"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    server: RunningServer, inputs: dict[str, bytes], part: str
) -> None:
    _, (error,) = stream(server, "video", inputs or {"options": b"{}"})
    assert error.startswith("invalid_argument: ")
    assert part in error


@pytest.mark.parametrize(
    ("model", "protocol", "options", "message"),
    [
        ("detect", "grpc", {}, "'detect' does not read videos; name one that does"),
        ("video", "http", {}, "streams over gRPC only"),
        ("video", "grpc", {"every": object()}, "cannot be written as JSON"),
    ],
)
def test_the_client_refuses_what_cannot_be(
    server: RunningServer, model: str, protocol: str, options: dict[str, Any], message: str
) -> None:
    url = f"{protocol}://{getattr(server, protocol)}"
    with DetectionClient(url, model=model) as client, pytest.raises(EndcapError, match=message):
        client.video(CLIP, options=options)


# --- limits and cancellation ----------------------------------------------------------------------


def test_the_most_frames(server: RunningServer) -> None:
    results = read(server, CLIP, "video_small")
    assert len(results) == MAX_FRAMES + 1
    assert all(result.ok for result in results[:-1])
    assert results[-1].error is not None
    assert f"more than {MAX_FRAMES} frames" in results[-1].error
    assert len(read(server, CLIP, "video_small", max_frames=MAX_FRAMES)) == (MAX_FRAMES)


@pytest.mark.parametrize(
    ("pause_s", "limit"),
    [(0, "the limit of the parameter max_file_bytes"), (0.5, f"more than {MAX_SECONDS} seconds")],
)
def test_a_stream_without_an_end_is_ended(
    server: RunningServer, site: Site, pause_s: float, limit: str
) -> None:
    width, height = (64, 48) if pause_s else (640, 480)

    def respond(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(f"YUV4MPEG2 W{width} H{height} F25:1 C420jpeg\n".encode())
        while True:  # the connection's end raises
            handler.wfile.write(b"FRAME\n" + bytes(width * height * 3 // 2))
            time.sleep(pause_s)

    site.paths["/videos/endless.y4m"] = respond
    *_, last = read(server, site.url("/videos/endless.y4m"), "video_small")
    assert limit in str(last.error)


def test_a_download_that_breaks_off_is_no_end(server: RunningServer, site: Site) -> None:
    def respond(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(stream)))
        handler.end_headers()
        handler.wfile.write(stream[: len(stream) // 2])

    stream = encode(FRAMES * 2, "mpeg2", options={"b": "40M"})
    site.paths["/videos/cut.ts"] = respond
    *frames, last = read(server, site.url("/videos/cut.ts"), "video_urls")
    assert len(frames) < 2 * len(FRAMES)
    assert last.final
    assert not last.ok


def held(site: Site, path: str, start: bytes) -> threading.Event:
    """A file of which the beginning comes, and the rest not before the event is set."""
    released = threading.Event()

    def respond(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(start)
        handler.wfile.flush()
        released.wait(30)

    site.paths[path] = respond
    return released


def there_is_room(client: DetectionClient) -> bool:
    """Whether a model that takes one video takes another; waits for its end."""
    return all(result.ok for result in client.video(CLIP, options={"max_frames": 1}))


def test_the_most_videos_at_a_time(server: RunningServer, site: Site) -> None:
    released = held(site, "/videos/held.ts", b"")
    with DetectionClient(server.grpc, model="video_one") as client:
        first: list[ImageResult] = []
        thread = threading.Thread(
            target=lambda: first.extend(client.video(site.url("/videos/held.ts")))
        )
        thread.start()
        try:
            wait_for(lambda: "/videos/held.ts" in site.requested)
            (refused,) = client.video(CLIP)
            assert refused.status == "unavailable"
            assert "1 videos are being read already" in str(refused.error)
        finally:
            released.set()
            thread.join()
        assert not first[-1].ok
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


def test_a_client_that_stops_ends_a_silent_download(server: RunningServer, site: Site) -> None:
    released = held(site, "/videos/silent.ts", b"")
    try:
        with DetectionClient(server.grpc, model="video_one", timeout_s=1) as client:
            (late,) = client.video(site.url("/videos/silent.ts"))
            assert late.status == "timeout"
            begin = time.monotonic()
            wait_for(lambda: there_is_room(client))
            assert time.monotonic() - begin < 8, "the model's own timeout of 10 s was waited for"
    finally:
        released.set()


# --- cameras and addresses ------------------------------------------------------------------------


def test_a_camera_is_opened_by_its_name(server: RunningServer, site: Site) -> None:
    user = base64.b64encode(f"user:{SECRET}".encode()).decode()

    def respond(handler: Any) -> None:
        if handler.headers.get("Authorization") == f"Basic {user}":
            content(handler, body=CLIP)
            return
        handler.send_response(401)
        handler.send_header("WWW-Authenticate", 'Basic realm="videos"')
        handler.end_headers()

    site.paths["/private/clip.mp4"] = respond
    assert [result.ok for result in read(server, "camera:gate", "video_urls")] == [True] * len(
        FRAMES
    )
    assert site.heads[-1]["Host"] == f"127.0.0.1:{site.port}"
    del site.paths["/private/clip.mp4"]
    said = failure(server, "camera:gate", "video_urls")
    assert "camera gate" in said
    assert "404" in said
    assert "not a camera of this model; send the name of a camera (gate)" in failure(
        server, "camera:yard", "video_urls"
    )
    log = "\n".join(server.log_lines(""))
    for secret in (SECRET, "pa%3Ass%40word", user):
        assert secret not in said + log + json.dumps(server.config("video_urls"))


def test_the_shipped_model_opens_no_address(server: RunningServer, site: Site) -> None:
    requests_before = len(site.requested)
    said = failure(server, site.url("/videos/clip.mp4"))
    assert "no entry of the parameter url_prefixes allows it" in said
    assert len(site.requested) == requests_before


# tests/python/python_backend/test_video_sources.py has more addresses.
REFUSED = [
    "/etc/passwd",
    "file:/etc/passwd",
    "file,http://127.0.0.1:PORT/videos/clip.mp4",
    "concat:http://127.0.0.1:PORT/videos/clip.mp4|file:///etc/passwd",
    "subfile,,start,0,end,100,,:///etc/passwd",
    "crypto+http://127.0.0.1:PORT/videos/clip.mp4",
    "pipe:0",
    "rtsp://127.0.0.1:PORT/videos/clip.mp4",
    "http://127.0.0.1:1/videos/clip.mp4",
    "http://127.0.0.1:PORT/videos/%2e%2e/secret",
    "http://127.0.0.1:PORT/videos/clip.mp4\r\nX-A: b",
    "http://127.0.0.1:PORT/videos/" + 3000 * "a",
]


def test_other_sources_are_refused_without_a_connection(server: RunningServer, site: Site) -> None:
    site.paths["/videos/clip.mp4"] = lambda handler: content(handler, body=CLIP)
    requests_before = len(site.requested)
    for source in REFUSED:
        given = source.replace("PORT", str(site.port)).encode()
        _, (error,) = stream(server, "video_urls", {"source": given})
        assert error.startswith("invalid_argument: the source ")
        assert "; send the name of a camera (gate), an address that url_prefixes allows or" in error
    assert len(site.requested) == requests_before


def test_an_address_is_opened_and_redirects_are_not_followed(
    server: RunningServer, site: Site
) -> None:
    site.paths["/videos/clip.mp4"] = lambda handler: content(handler, body=CLIP)
    url = site.url("/videos/clip.mp4?token=1")
    (result,) = read(server, url, "video_urls", max_frames=1)
    assert (result.ok, result.image) == (True, url)
    site.paths["/videos/start"] = redirect("/videos/clip.mp4")
    requests_before = len(site.requested)
    said = failure(server, site.url("/videos/start"), "video_urls")
    assert said.startswith("invalid_argument: ")
    assert "redirects to another address" in said
    assert site.requested[requests_before:] == ["/videos/start"]


def playlists(port: int) -> dict[str, bytes]:
    """Files that name other files, which FFmpeg would open in their place."""
    url, file = f"http://127.0.0.1:{port}/secret", "/etc/passwd"
    hls = (
        f'#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-KEY:METHOD=AES-128,URI="{url}"\n#EXTINF:1.0,\n'
        f"{url}\n#EXT-X-ENDLIST\n"
    )
    sdp = (
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        f"m=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    )
    texts = {"hls": hls, "concat": f"ffconcat version 1.0\nfile '{file}'\n", "sdp": sdp}
    return {name: text.encode() for name, text in texts.items()}


def test_playlists_at_an_allowed_address_are_not_followed(
    server: RunningServer, site: Site
) -> None:
    site.paths["/secret"] = lambda handler: content(handler, body=CLIP)
    for playlist in playlists(site.port).values():
        site.paths["/videos/list.m3u8"] = functools.partial(content, body=playlist)
        requests_before = len(site.requested)
        said = failure(server, site.url("/videos/list.m3u8"), "video_urls")
        assert "no video that is read here" in said
        assert "root:" not in said
        assert {*site.requested[requests_before:]} == {"/videos/list.m3u8"}


def test_frames_that_a_called_model_refuses_are_repeated(server: RunningServer) -> None:
    """Four frames at a time, of which the model takes one and lets one wait."""
    noise = np.random.default_rng(3).integers(0, 256, (24, 480, 640, 3), np.uint8)
    results = read(server, encode(noise), "video_strict")
    assert [result.status for result in results] == ["ok"] * len(noise)
    labels = {"model": "preprocess_strict", "reason": "queue"}
    assert server.metric("endcap_preprocess_refused_total", **labels) > 0
