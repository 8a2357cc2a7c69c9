"""The model `video` on the real server: results, sources, limits, cancellation, attacks."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc_client

import endcap
from endcap.client import AsyncDetectionClient, DetectionClient, ImageResult
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.video.reader import VideoReader
from tests.support.doc_pages import blocks, run_python
from tests.support.http_site import Site, content, redirect, run_site
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.support.videos import encode, moving_frames
from tests.triton import video_models
from tests.triton.running_server import RunningServer, run_server, wait_for

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"
WIDE = SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
FRAMES = moving_frames(WIDE, 24)
SMALL = (SHIPPED / "detect" / "samples" / "shapes_320x240.jpg").read_bytes()
PART = f"\r\n--x\r\nContent-Type: image/jpeg\r\nContent-Length: {len(SMALL)}\r\n\r\n"
CLIP = encode(FRAMES, options={"g": "8"})
LONG = encode(FRAMES * 20)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with run_site() as running:
        yield running


SECRET = "pa:ss@word"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("videos")
    video_models.write_all(
        repository,
        cameras=f"gate=http://user:${{GATE_PASSWORD}}@127.0.0.1:{site.port}/private/clip.mp4",
        url_prefixes=f"http://127.0.0.1:{site.port}/videos/",
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as stack,
    ):
        patch.setenv("GATE_PASSWORD", SECRET)
        running = stack.enter_context(
            run_server(repository, "--model-control-mode=explicit", "--load-model=*")
        )
        failed = {n: m.get("reason") for n, m in running.index().items() if m["state"] != "READY"}
        assert not failed
        yield running


def read(
    server: RunningServer, video: Any, model: str = "video", **options: Any
) -> list[ImageResult]:
    with DetectionClient(server.grpc, model=model) as client:
        return list(client.video(video, options=options))


def failure(server: RunningServer, video: Any, model: str = "video", **options: Any) -> str:
    """The message of a video of which there is no frame."""
    (result,) = read(server, video, model, **options)
    assert not result.ok
    assert result.frame is None
    assert result.final
    return f"{result.status}: {result.error}"


class Pipeline:
    """The library in this process: what `detect` does, without a server."""

    def __init__(self) -> None:
        file = SHIPPED / "detector" / "1" / "model.onnx"
        self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self._preprocess = endcap.Preprocessor("ultralytics")
        config = (SHIPPED / "postprocess" / "config.pbtxt").read_text()
        names = ("head", "num_classes", "score_threshold")
        given = {
            name: re.search(rf'key: "{name}"\s+value {{ string_value: "(.*?)"', config)
            for name in names
        }
        self._postprocess = endcap.Postprocessor(**{n: m[1] for n, m in given.items() if m})

    def __call__(self, image: Any) -> endcap.ImageDetections:
        tensors = self._preprocess(image)
        (head,) = self._session.run(["head"], {"images": tensors.images})
        detections = self._postprocess(head, tensors.geometry, tensors.status)
        assert isinstance(detections, endcap.Detections)
        return detections[0]


def check_frames(results: Sequence[ImageResult], *, frame_rate: float, **reading: Any) -> None:
    """Compare results with those of the library on the same clip."""
    pipeline, tracker = Pipeline(), endcap.Tracker(frame_rate=frame_rate)
    with VideoReader(CLIP, **reading) as reader:
        frames = list(reader)
    assert len(results) == len(frames)
    for result, frame in zip(results, frames, strict=True):
        assert result.ok, result
        assert result.frame is not None
        assert (result.frame.index, result.frame.seconds) == (frame.index, frame.seconds)
        assert result.frame.dropped == 0
        expected = tracker(pipeline(frame.image))
        found = result.detections
        assert found.class_ids.tolist() == expected.class_ids.tolist()
        np.testing.assert_allclose(found.boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=SERVED_SCORE)
        assert found.track_ids is not None
        assert expected.track_ids is not None
        assert found.track_ids.tolist() == expected.track_ids.tolist()


# --- results --------------------------------------------------------------------------------------


def test_every_frame_has_the_results_of_the_library(server: RunningServer) -> None:
    results = read(server, CLIP)
    assert len(results) == len(FRAMES)
    check_frames(results, frame_rate=25)
    ids = {each.track_id for result in results for each in result.detections} - {None}
    assert len(ids) >= 2
    assert not any(result.final for result in results), "the last response has no frame"
    assert {result.detections[0].label for result in results} <= {
        "circle", "square", "triangle", "star", "cross", "ring"
    }  # fmt: skip


def test_a_path_and_the_asynchronous_client(server: RunningServer, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(CLIP)

    async def run() -> list[ImageResult]:
        async with AsyncDetectionClient(server.grpc, model="video") as client:
            return [result async for result in client.video(path)]

    results = asyncio.run(run())
    check_frames(results, frame_rate=25)
    assert {result.image for result in results} == {str(path)}
    row = results[3].to_dict()
    assert (row["frame_index"], row["pts_seconds"], row["dropped"]) == (3, 3 / 25, 0)
    (missing,) = read(server, tmp_path / "none.mp4")
    assert missing.status == "unreadable"


def test_frames_are_sampled_as_by_the_reader(server: RunningServer) -> None:
    results = read(server, CLIP, every=3)
    assert 0 < len(results) < len(FRAMES) / 2
    check_frames(results, frame_rate=25 / 3, every=3)
    check_frames(read(server, CLIP, keyframes_only=True), frame_rate=30, keyframes_only=True)


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
    clips = [CLIP, encode(FRAMES[::-1])] * 3
    results: dict[int, list[ImageResult]] = {}

    def run(number: int) -> None:
        results[number] = read(server, clips[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(clips))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(0, len(clips), 2):
        check_frames(results[number], frame_rate=25)
    for number in range(3, len(clips), 2):
        ids = [[r.detections.track_ids for r in results[each]] for each in (1, number)]
        for one, other in zip(*ids, strict=True):
            np.testing.assert_array_equal(one, other)


def test_frames_of_one_video_share_batches(server: RunningServer) -> None:
    executions = server.executions("failing_detect")
    results = read(server, CLIP, "video_failing")
    assert [result.status for result in results] == ["ok"] * len(FRAMES)
    done = server.executions("failing_detect") - executions
    assert len(FRAMES) / 4 <= done < len(FRAMES), "four frames are in flight at the most"


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
    small = encode([frame[:240, :320] for frame in FRAMES[:3]], "mjpeg")
    results = read(server, small, "video_failing")
    assert [result.status for result in results] == ["corrupt_image"] * 3
    assert [result.frame.index for result in results if result.frame is not None] == [0, 1, 2]
    assert not any(result.final for result in results)
    (line,) = wait_for(lambda: server.log_lines("3 frames have failed, the first of them"))
    assert "model 'failing_detect': " in line


def test_a_model_that_is_not_there_fails_each_frame(server: RunningServer) -> None:
    results = read(server, CLIP, "video_absent", max_frames=3)
    assert [result.status for result in results] == ["internal"] * 3


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


def test_the_client_refuses_what_cannot_be(server: RunningServer) -> None:
    with (
        DetectionClient(server.grpc, model="detect") as client,
        pytest.raises(UnsupportedError, match="'detect' reads no videos; name one that does"),
    ):
        client.video(CLIP)
    with (
        DetectionClient(f"http://{server.http}", model="video") as client,
        pytest.raises(UnsupportedError, match="streams over gRPC only"),
    ):
        client.video(CLIP)
    with (
        DetectionClient(server.grpc, model="video") as client,
        pytest.raises(InvalidArgumentError, match="cannot be written as JSON"),
    ):
        client.video(CLIP, options={"every": object()})


# --- limits and cancellation ----------------------------------------------------------------------


def test_the_most_frames(server: RunningServer) -> None:
    results = read(server, CLIP, "video_small")
    assert len(results) == video_models.MAX_FRAMES + 1
    assert all(result.ok for result in results[:-1])
    assert results[-1].error is not None
    assert f"more than {video_models.MAX_FRAMES} frames" in results[-1].error
    assert len(read(server, CLIP, "video_small", max_frames=video_models.MAX_FRAMES)) == (
        video_models.MAX_FRAMES
    )


def test_the_largest_file(server: RunningServer) -> None:
    large = CLIP + b"\0" * video_models.MAX_FILE_BYTES
    assert "limit of the parameter max_file_bytes" in failure(server, large, "video_small")


@pytest.mark.parametrize("name", ["ts", "y4m", "mjpeg"])
def test_a_stream_without_an_end_is_ended(server: RunningServer, site: Site, name: str) -> None:
    parts = {
        "ts": (b"", encode(FRAMES, "mpeg2", options={"b": "20M"})),
        "y4m": (b"YUV4MPEG2 W640 H480 F25:1 C420jpeg\n", b"FRAME\n" + bytes(640 * 480 * 3 // 2)),
        "mjpeg": (b"", PART.encode() + SMALL),
    }
    start, repeated = parts[name]

    def respond(handler: Any) -> None:
        handler.send_response(200)
        if name == "mjpeg":
            handler.send_header("Content-Type", "multipart/x-mixed-replace; boundary=x")
        handler.end_headers()
        handler.wfile.write(start)
        while True:  # the connection's end raises
            handler.wfile.write(repeated)

    site.paths[f"/videos/endless.{name}"] = respond
    *_, last = read(server, site.url(f"/videos/endless.{name}"), "video_small")
    assert last.status == "image_limit"
    assert "the limit of the parameter max_file_bytes" in str(last.error)


def test_a_download_that_breaks_off_is_no_end(server: RunningServer, site: Site) -> None:
    def respond(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(stream)))
        handler.end_headers()
        handler.wfile.write(stream[: len(stream) // 2])

    stream = encode(FRAMES * 8, "mpeg2", options={"b": "40M"})
    site.paths["/videos/cut.ts"] = respond
    *frames, last = read(server, site.url("/videos/cut.ts"), "video_urls")
    assert len(frames) < 4 * len(FRAMES)
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


def test_the_longest_time(server: RunningServer, site: Site) -> None:
    def respond(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"YUV4MPEG2 W64 H48 F25:1 C420jpeg\n")
        while True:  # the connection's end raises
            handler.wfile.write(b"FRAME\n" + bytes(64 * 48 * 3 // 2))
            time.sleep(0.5)

    site.paths["/videos/slow.y4m"] = respond
    *_, last = read(server, site.url("/videos/slow.y4m"), "video_small")
    assert f"more than {video_models.MAX_SECONDS} seconds" in str(last.error)


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


def test_an_address_gives_the_same_as_the_bytes(server: RunningServer, site: Site) -> None:
    site.paths["/videos/clip.mp4"] = lambda handler: content(handler, body=CLIP)
    url = site.url("/videos/clip.mp4?token=1")
    results = read(server, url, "video_urls")
    check_frames(results, frame_rate=25)
    assert {result.image for result in results} == {url}


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
    check_frames(read(server, "camera:gate", "video_urls"), frame_rate=25)
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
    assert "cameras and url_prefixes of this model name nothing to open" in said
    assert len(site.requested) == requests_before


REFUSED = [
    "/etc/passwd",
    "file:/etc/passwd",
    "file,http://127.0.0.1:PORT/videos/clip.mp4",
    "concat:http://127.0.0.1:PORT/videos/clip.mp4|file:///etc/passwd",
    "subfile,,start,0,end,100,,:///etc/passwd",
    "crypto+http://127.0.0.1:PORT/videos/clip.mp4",
    "data:://text/plain;base64,AAAA",
    "cache:http://127.0.0.1:PORT/videos/clip.mp4",
    "pipe:0",
    "tcp://127.0.0.1:PORT/videos/clip.mp4",
    "rtp://127.0.0.1:PORT",
    "ftp://127.0.0.1:PORT/videos/clip.mp4",
    "lavfi://testsrc",
    "HTTP://127.0.0.1:PORT/videos/clip.mp4",
    "rtsp://127.0.0.1:PORT/videos/clip.mp4",
    "https://127.0.0.1:PORT/videos/clip.mp4",
    "http://127.0.0.1:1/videos/clip.mp4",
    "http://127.0.0.1:PORT/secret",
    "http://127.0.0.1:PORT/videos/../secret",
    "http://127.0.0.1:PORT/videos/%2e%2e/secret",
    "http://127.0.0.1:PORT/videos/..%2fsecret",
    "http://127.0.0.1:PORT\\videos\\clip.mp4",
    "http://127.0.0.1:PORT/videos/clip.mp4\r\nX-A: b",
    "http://127.0.0.1:PORT/videos/" + 3000 * "a",
    "http://%31%32%37.0.0.1:PORT/videos/clip.mp4",
    "http://localhost:PORT/videos/clip.mp4",
    "http://user@127.0.0.1:PORT/videos/clip.mp4",
    "http://example.org#@127.0.0.1:PORT/videos/clip.mp4",
]


@pytest.mark.parametrize("source", REFUSED)
def test_other_sources_are_refused_without_a_connection(
    server: RunningServer, site: Site, source: str
) -> None:
    site.paths["/videos/clip.mp4"] = lambda handler: content(handler, body=CLIP)
    requests_before = len(site.requested)
    given = source.replace("PORT", str(site.port)).encode()
    _, (error,) = stream(server, "video_urls", {"source": given})
    assert error.startswith("invalid_argument: the source ")
    assert "; send the name of a camera (gate), an address that url_prefixes allows or" in error
    assert len(site.requested) == requests_before


@pytest.mark.parametrize("location", ["/videos/clip.mp4", "http://localhost:PORT/secret"])
def test_redirects_are_not_followed(server: RunningServer, site: Site, location: str) -> None:
    site.paths["/videos/clip.mp4"] = lambda handler: content(handler, body=CLIP)
    site.paths["/videos/start"] = redirect(location.replace("PORT", str(site.port)))
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


@pytest.mark.parametrize("name", playlists(0))
def test_playlists_at_an_allowed_address_are_not_followed(
    server: RunningServer, site: Site, name: str
) -> None:
    playlist = playlists(site.port)[name]
    site.paths["/secret"] = lambda handler: content(handler, body=CLIP)
    site.paths["/videos/list.m3u8"] = lambda handler: content(handler, body=playlist)
    requests_before = len(site.requested)
    said = failure(server, site.url("/videos/list.m3u8"), "video_urls")
    assert "no video that is read here" in said
    assert "root:" not in said
    assert {*site.requested[requests_before:]} == {"/videos/list.m3u8"}


def test_the_configuration_says_how_to_ask(server: RunningServer) -> None:
    config = server.config("video")
    assert config["model_transaction_policy"] == {"decoupled": True}
    optional = {each["name"]: each.get("optional", False) for each in config["input"]}
    assert optional == {"encoded": True, "source": True, "options": True}
