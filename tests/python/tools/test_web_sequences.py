"""Videos and series of pictures on the page, with tracks of the server or of the page's server."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_calls import JPEG, Response, send_request
from pages import SAMPLE_FILES, Visit, choose, result_of, rows_of, serve_page, visit
from playwright.sync_api import Browser, Error, Route, expect
from videos import encode, jpeg_of, moving_frames

from endcap import Tracker
from endcap.client import DetectionClient, ImageResult
from endcap.drawing.draw import class_color
from endcap.tools.web.sequences import SequenceLimits, open_tracking

pytest_plugins = ["page_fixtures"]

WIDE = next(path for path in SAMPLE_FILES if "1920x1080" in path.name)
FRAMES = moving_frames(WIDE, 24)
JPEGS = [jpeg_of(frame) for frame in FRAMES]


@functools.cache
def clip(repeats: int) -> bytes:
    """A video of these frames, so many times."""
    return encode(FRAMES * repeats, "vp8", rate=10)


@pytest.fixture(scope="module")
def tracking(client: DetectionClient) -> Iterator[DetectionClient]:
    opened = open_tracking(client, 4)
    assert opened is not None
    with opened:
        yield opened


@pytest.fixture(scope="module", params=["served", "local"])
def page_url(
    request: pytest.FixtureRequest, client: DetectionClient, tracking: DetectionClient
) -> Iterator[str]:
    served = tracking if request.param == "served" else None
    with serve_page(client, tracking=served, samples=[WIDE]) as server:
        yield server.url


def begin(url: str) -> str:
    response = send_request(url, "POST", "/sequences", b"")
    assert response.status == 201
    sequence: str = response.json["sequence"]
    return sequence


def send(url: str, sequence: str, frame: bytes, **headers: str) -> Response:
    return send_request(
        url, "POST", f"/sequences/{sequence}?name=frame", frame, {**JPEG, **headers}
    )


def tracked(client: DetectionClient, frames: list[bytes]) -> list[ImageResult]:
    """The frames' results with the ids of a tracker of our own."""
    tracker = Tracker()
    results = [result_of(client, frame) for frame in frames]
    return [replace(each, detections=tracker(each.detections)) for each in results]


# --- over HTTP ------------------------------------------------------------------------------------


def test_what_tracks_is_the_served_model_or_the_library(
    client: DetectionClient, tracking: DetectionClient
) -> None:
    assert tracking.model == "detect_track"
    for served, name in ((tracking, "detect_track"), (None, "endcap.Tracker")):
        with serve_page(client, tracking=served) as server:
            assert send_request(server.url, "POST", "/sequences", b"").json["tracker"] == name
    with DetectionClient(str(client.address), model="cascade") as other:
        assert open_tracking(other, 4) is None


def test_frames_have_the_tracks_of_the_library(page_url: str, client: DetectionClient) -> None:
    sequence = begin(page_url)
    responses = [send(page_url, sequence, frame).json for frame in JPEGS]
    expected = [each.to_dict()["detections"] for each in tracked(client, JPEGS)]
    assert [each["detections"] for each in responses] == expected
    assert [each["frame_index"] for each in responses] == list(range(len(JPEGS)))
    last = responses[-1]
    ids = {each["track_id"] for each in last["detections"] if "track_id" in each}
    assert len(ids) >= 2
    assert last["track_colors"] == {
        str(each): "#{:02x}{:02x}{:02x}".format(*class_color(each)) for each in ids
    }
    assert (last["width"], last["height"]) == (640, 480)


def test_sequences_at_once_are_tracked_apart(page_url: str, client: DetectionClient) -> None:
    def run(frames: list[bytes]) -> list[Any]:
        sequence = begin(page_url)
        return [send(page_url, sequence, frame).json["detections"] for frame in frames]

    orders = [JPEGS[:8], JPEGS[8:16], JPEGS[16:], JPEGS[:8]]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, orders))
    for frames, result in zip(orders, results, strict=True):
        assert result == [each.to_dict()["detections"] for each in tracked(client, frames)]


def test_a_damaged_frame_has_its_status_and_the_tracks_go_on(
    page_url: str, client: DetectionClient
) -> None:
    sequence = begin(page_url)
    before = [send(page_url, sequence, frame).json for frame in JPEGS[:3]]
    damaged = send(page_url, sequence, JPEGS[3][:2000])
    assert (damaged.status, damaged.json["status"]) == (422, "corrupt_image")
    after = send(page_url, sequence, JPEGS[4]).json
    assert after["frame_index"] == 4
    ids = [{each.get("track_id") for each in row["detections"]} for row in (before[-1], after)]
    assert ids[0] & ids[1] - {None}


def test_a_sequence_that_the_server_has_dropped_begins_anew(
    client: DetectionClient, tracking: DetectionClient
) -> None:
    idle_s = 11  # track's max_sequence_idle_microseconds, and a second
    with serve_page(client, tracking=tracking) as server:
        sequence = begin(server.url)
        for index in range(2):
            assert send(server.url, sequence, JPEGS[index]).json["frame_index"] == index
        time.sleep(idle_s)
        late = [send(server.url, sequence, JPEGS[index]) for index in (2, 3)]
    assert [each.status for each in late] == [200, 200]
    assert [each.json["frame_index"] for each in late] == [0, 1]


def test_an_ended_sequence_takes_no_frames(page_url: str) -> None:
    sequence = begin(page_url)
    assert send(page_url, sequence, JPEGS[0]).status == 200
    assert send_request(page_url, "DELETE", f"/sequences/{sequence}").status == 204
    refused = send(page_url, sequence, JPEGS[1])
    assert refused.status == 404
    assert "begin another one" in refused.json["error"]
    assert send_request(page_url, "DELETE", f"/sequences/{sequence}").status == 204, (
        "twice is no error"
    )


def test_sequences_are_bounded_and_idle_ones_make_room(client: DetectionClient) -> None:
    limits = SequenceLimits(most=2, idle_s=1.0)
    with serve_page(client, sequence_limits=limits) as server:
        first, second = begin(server.url), begin(server.url)
        refused = send_request(server.url, "POST", "/sequences", b"")
        assert refused.status == 503
        assert refused.headers["Retry-After"]
        assert "2 videos, cameras and series of pictures" in refused.json["error"]
        send_request(server.url, "DELETE", f"/sequences/{first}")
        third = begin(server.url)
        time.sleep(1.1)
        assert send(server.url, second, JPEGS[0]).status == 404
        assert send(server.url, third, JPEGS[0]).status == 404
        assert begin(server.url) != begin(server.url)


def test_a_frame_before_the_response_to_the_last_is_409(client: DetectionClient) -> None:
    large = SAMPLE_FILES[[path.name for path in SAMPLE_FILES].index("shapes_4000x3000.jpg")]
    with serve_page(client) as server:
        sequence = begin(server.url)
        statuses: list[int] = []
        content = large.read_bytes()

        def run() -> None:
            statuses.append(send(server.url, sequence, content).status)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(statuses) == {200, 409}
        assert send(server.url, sequence, content).json["frame_index"] == statuses.count(200)


@pytest.mark.parametrize("path", ["/sequences", "/sequences/0123"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_scripts_of_other_sites_begin_end_and_track_nothing(
    page_url: str, path: str, method: str
) -> None:
    headers = {**JPEG, "Origin": "http://example.org"}
    assert send_request(page_url, method, path, JPEGS[0], headers).status == 403
    assert (
        send_request(page_url, method, path, JPEGS[0], {**JPEG, "Host": "example.org"}).status
        == 403
    )


def test_frames_have_the_limits_of_images(page_url: str) -> None:
    sequence = begin(page_url)
    text = send(page_url, sequence, JPEGS[0], **{"Content-Type": "text/plain"})
    assert text.status == 415


# --- in the browser -------------------------------------------------------------------------------


@pytest.fixture
def visited(browser: Browser, page_url: str) -> Iterator[Visit]:
    with visit(browser, page_url, viewport={"width": 1280, "height": 800}) as opened:
        yield opened


def wait_for_end(opened: Visit) -> None:
    opened.wait_for_result()
    expect(opened.page.locator("#camera")).to_have_text("Open the camera")


def test_a_video_is_tracked_while_it_plays(visited: Visit, client: DetectionClient) -> None:
    choose(visited, "clip.webm", clip(1), "video/webm")
    expect(visited.page.locator("#camera")).to_have_text("Stop the video")
    wait_for_end(visited)
    page = visited.page
    assert len(visited.sent) >= 3
    expected = tracked(client, visited.sent)
    assert visited.rows() == rows_of(expected[-1])
    ids = {each.track_id for result in expected for each in result.detections} - {None}
    assert page.inner_text("#tracks") == str(len(ids))
    dropped = int(page.inner_text("#dropped"))
    assert 0 <= dropped <= len(FRAMES) - len(visited.sent)
    assert page.inner_text("#rate-title") == "Frames per second"
    assert page.is_visible("th.of-tracks")
    assert not page.is_disabled("#save")
    page.wait_for_timeout(300)
    assert any(url.split("/")[-2] == "sequences" for url in visited.urls)


def test_frames_that_come_too_late_are_dropped_and_counted(visited: Visit) -> None:
    def slowly(route: Route) -> None:
        time.sleep(0.4)
        route.continue_()

    visited.page.route("**/sequences/*?name=*", slowly)
    choose(visited, "clip.webm", clip(1), "video/webm")
    wait_for_end(visited)
    dropped = int(visited.page.inner_text("#dropped"))
    assert len(visited.sent) < len(FRAMES) / 2
    assert dropped > len(FRAMES) / 3


@pytest.mark.slow
def test_a_video_stops_when_it_is_told_to(visited: Visit) -> None:
    choose(visited, "clip.webm", clip(10), "video/webm")
    visited.wait_for_result()
    visited.page.get_by_role("button", name="Stop the video").click()
    expect(visited.page.locator("#camera")).to_have_text("Open the camera")
    visited.page.wait_for_timeout(300)
    sent = len(visited.sent)
    visited.page.wait_for_timeout(500)
    assert len(visited.sent) == sent, "no frame is sent after stop"


def test_a_frame_under_way_goes_with_its_video(visited: Visit) -> None:
    """It would come to a sequence that has ended, and begin another one."""
    choose(visited, "clip.webm", clip(10), "video/webm")
    visited.wait_for_result()
    held: list[Route] = []
    methods: list[str] = []

    def hold_frames(route: Route) -> None:
        methods.append(route.request.method)
        if route.request.method == "POST":
            held.append(route)
        else:
            route.continue_()

    visited.page.route("**/sequences/*", hold_frames)
    while not held:
        visited.page.wait_for_timeout(20)
    visited.page.get_by_role("button", name="Stop the video").click()
    expect(visited.page.locator("#camera")).to_have_text("Open the camera")
    visited.page.wait_for_timeout(200)
    assert methods == ["POST", "DELETE"]
    with contextlib.suppress(Error):  # it has been aborted
        held[0].continue_()
    visited.page.wait_for_timeout(300)
    assert methods == ["POST", "DELETE"]
    assert not visited.problems


def test_a_picture_after_a_video_has_no_tracks(visited: Visit, client: DetectionClient) -> None:
    choose(visited, "clip.webm", clip(10), "video/webm")
    visited.wait_for_result()
    visited.page.get_by_role("button", name=WIDE.name).click()
    expect(visited.page.locator("#rate-title")).to_have_text("Sent")
    assert visited.page.inner_text("#camera") == "Open the camera"
    assert visited.rows() == rows_of(result_of(client, WIDE))
    assert not visited.page.is_visible("th.of-tracks")
    assert not visited.page.is_visible("#tracks")


def test_several_pictures_are_a_sequence_in_the_order_of_their_names(
    visited: Visit, client: DetectionClient, tmp_path: Path
) -> None:
    paths = [tmp_path / f"frame_{number}.jpg" for number in range(12)]  # 10 comes after 9
    for path, content in zip(paths, JPEGS, strict=False):
        path.write_bytes(content)
    visited.page.set_input_files("#file", list(reversed(paths)))
    expect(visited.page.locator("#rate")).to_have_text("12 of 12")
    wait_for_end(visited)
    assert visited.sent == JPEGS[:12]
    assert visited.rows() == rows_of(tracked(client, JPEGS[:12])[-1])


def test_a_damaged_picture_of_several_is_left_out(
    visited: Visit, client: DetectionClient, tmp_path: Path
) -> None:
    contents = [JPEGS[0], JPEGS[1], JPEGS[2][:2000], JPEGS[3], JPEGS[4]]
    for number, content in enumerate(contents):
        (tmp_path / f"frame_{number}.jpg").write_bytes(content)
    visited.page.set_input_files("#file", sorted(tmp_path.iterdir()))
    expect(visited.page.locator("#rate")).to_have_text("5 of 5")
    wait_for_end(visited)
    assert visited.page.inner_text("#note") == "Left out, since they cannot be read: frame_2.jpg"
    boxes = [row[0] for row in visited.rows()]
    assert boxes == [row[0] for row in rows_of(result_of(client, JPEGS[4]))]
    visited.problems[:] = [each for each in visited.problems if "422" not in each]


def test_two_videos_and_what_cannot_be_played_are_explained(visited: Visit) -> None:
    video = {"name": "a.webm", "mimeType": "video/webm", "buffer": encode(FRAMES[:3], "vp8")}
    visited.page.set_input_files("#file", [video, {**video, "name": "b.webm"}])
    assert "Only one video at a time" in visited.problem()
    choose(visited, "broken.webm", b"no video" * 100, "video/webm")
    expect(visited.page.locator("#problem")).to_contain_text("The browser cannot play this video")
    assert "broken.webm is damaged" in visited.problem()
    assert visited.page.inner_text("#camera") == "Open the camera"
    assert visited.sent == []


def test_trails_follow_the_objects(visited: Visit, client: DetectionClient, tmp_path: Path) -> None:
    paths = [tmp_path / f"frame_{number:02}.jpg" for number in range(len(JPEGS))]
    for path, content in zip(paths, JPEGS, strict=True):
        path.write_bytes(content)
    visited.page.set_input_files("#file", paths)
    expect(visited.page.locator("#rate")).to_have_text(f"{len(JPEGS)} of {len(JPEGS)}")
    wait_for_end(visited)
    results = tracked(client, JPEGS)
    pixels = visited.drawn_pixels()
    scale = pixels.shape[1] / 640
    ids = [each.track_id for each in results[-1].detections if each.track_id is not None]
    assert len(ids) >= 2
    for track_id in ids:
        x, y = _centre(results[-2], track_id)
        near = pixels[round(y * scale), round(x * scale)].astype(int)
        # The newest part of a trail is nearly opaque.
        assert max(abs(near - class_color(track_id))) < 40


def _centre(result: ImageResult, track_id: int) -> tuple[float, float]:
    (x1, y1, x2, y2) = next(each.box for each in result.detections if each.track_id == track_id)
    return (x1 + x2) / 2, (y1 + y2) / 2


def test_copied_json_has_the_tracks(browser: Browser, page_url: str, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"frame_{number}.jpg").write_bytes(JPEGS[number])
    permissions = ["clipboard-read", "clipboard-write"]
    with visit(browser, page_url, permissions=permissions) as opened:
        opened.page.set_input_files("#file", sorted(tmp_path.iterdir()))
        expect(opened.page.locator("#rate")).to_have_text("3 of 3")
        wait_for_end(opened)
        opened.page.click("#copy")
        expect(opened.page.locator("#done")).to_have_text("Copied")
        copied = json.loads(opened.page.evaluate("navigator.clipboard.readText()"))
    assert any("track_id" in each for each in copied["detections"])
