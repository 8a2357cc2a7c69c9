"""The page's camera, with Chromium's fake device showing a sample picture."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from browser import run_browser
from pages import SAMPLE_FILES, Visit, result_of, rows_of, run_client, serve_page, visit
from PIL import Image
from playwright.sync_api import Browser, Response, expect

from endcap import Tracker
from endcap.client import DetectionClient

SHOWN = next(path for path in SAMPLE_FILES if "512x600" in path.name)
FRAME_SIZE = (640, 480)
FAKE_DEVICE = "--use-fake-device-for-media-stream"
ALLOWED = "--use-fake-ui-for-media-stream"

# Keeps what the page opens, to look at it later.
KEEP_STREAMS = """
    window.streams = [];
    const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (wanted) => {
        const stream = await open(wanted);
        window.streams.push(stream);
        return stream;
    };
"""
TRACK_STATES = "streams.flatMap(s => s.getTracks()).map(t => t.readyState)"


@pytest.fixture(scope="module")
def client() -> Iterator[DetectionClient]:
    with run_client() as client:
        yield client


@pytest.fixture(scope="module")
def url(client: DetectionClient) -> Iterator[str]:
    with serve_page(client, samples=[SHOWN]) as server:
        yield server.url


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample as a film, which the fake device repeats."""
    frame = io.BytesIO()
    with Image.open(SHOWN) as picture:
        picture.resize(FRAME_SIZE).save(frame, "JPEG", quality=95)
    path = tmp_path_factory.mktemp("camera") / "sample.mjpeg"
    path.write_bytes(frame.getvalue() * 30)
    return path


def run_camera(film: Path) -> contextlib.AbstractContextManager[Browser]:
    return run_browser(FAKE_DEVICE, ALLOWED, f"--use-file-for-fake-video-capture={film}")


@pytest.fixture
def opened(url: str, film: Path) -> Iterator[Visit]:
    with run_camera(film) as browser, visit(browser, url, init=KEEP_STREAMS) as opened:
        yield opened


class Traffic:
    """Requests of frames and their responses in the order in which the browser had them."""

    def __init__(self, opened: Visit) -> None:
        self.in_flight = 0
        self.most_in_flight = 0
        self.responses: list[Response] = []
        opened.page.on("request", lambda request: self._count(request.url, 1))
        opened.page.on("requestfinished", lambda request: self._count(request.url, -1))
        opened.page.on("requestfailed", lambda request: self._count(request.url, -1))
        opened.page.on("response", self._keep)

    def _count(self, url: str, change: int) -> None:
        if "?name=" in url:
            self.in_flight += change
            self.most_in_flight = max(self.most_in_flight, self.in_flight)

    def _keep(self, response: Response) -> None:
        if "/sequences/" in response.url and response.request.method == "POST":
            self.responses.append(response)


def see_frames(opened: Visit, traffic: Traffic, count: int) -> None:
    while len(traffic.responses) < count:
        with opened.page.expect_response("**/sequences/*?name=camera"):
            pass


def test_frames_are_detected_one_at_a_time_until_stop(
    opened: Visit, client: DetectionClient
) -> None:
    page = opened.page
    traffic = Traffic(opened)
    page.get_by_role("button", name="Open the camera").click()
    see_frames(opened, traffic, 8)
    assert page.inner_text("#rate-title") == "Frames per second"
    expect(page.locator("#rate")).not_to_have_text("–")  # noqa: RUF001
    assert float(page.inner_text("#rate")) > 0
    assert page.inner_text("#picture-size") == "640 × 480"  # noqa: RUF001
    assert page.get_attribute("#summary", "aria-live") == "off"
    assert page.evaluate(TRACK_STATES) == ["live"]
    assert traffic.most_in_flight == 1

    page.get_by_role("button", name="Stop the camera").click()
    assert page.evaluate(TRACK_STATES) == ["ended"]
    expect(page.locator("#camera")).to_have_text("Open the camera")
    sent = len(opened.sent)
    page.wait_for_timeout(500)
    assert len(opened.sent) == sent, "no frame is sent after stop"
    assert page.get_attribute("#summary", "aria-live") == "polite"

    with Image.open(io.BytesIO(opened.sent[-1])) as frame:
        assert (frame.format, frame.size) == ("JPEG", FRAME_SIZE)
    tracker = Tracker()
    for frame in opened.sent:
        result = result_of(client, frame)
        shown = replace(result, detections=tracker(result.detections))
    assert len(rows_of(shown)) >= 3
    assert opened.rows() == rows_of(shown)
    assert not page.is_disabled("#save")


def test_a_picture_ends_the_camera(opened: Visit, client: DetectionClient) -> None:
    traffic = Traffic(opened)
    opened.page.click("#camera")
    see_frames(opened, traffic, 2)
    opened.page.get_by_role("button", name=SHOWN.name).click()
    expect(opened.page.locator("#rate-title")).to_have_text("Sent")
    assert opened.page.evaluate(TRACK_STATES) == ["ended"]
    assert opened.page.inner_text("#camera") == "Open the camera"
    assert opened.rows() == rows_of(result_of(client, SHOWN))
    assert opened.sent[-1] == SHOWN.read_bytes()


def test_a_server_that_goes_ends_the_camera_with_an_error_message(
    client: DetectionClient, film: Path
) -> None:
    with run_camera(film) as browser, contextlib.ExitStack() as serving:
        server = serving.enter_context(serve_page(client))
        with visit(browser, server.url, init=KEEP_STREAMS) as opened:
            traffic = Traffic(opened)
            opened.page.click("#camera")
            see_frames(opened, traffic, 2)
            serving.close()
            assert "The server of this page does not respond" in opened.problem()
            assert opened.page.evaluate(TRACK_STATES) == ["ended"]
            assert opened.page.inner_text("#camera") == "Open the camera"
            assert all("net::ERR" in each for each in opened.problems)
            opened.problems.clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([FAKE_DEVICE, f"{ALLOWED}=deny"], "The camera is not allowed"),
        ([], "There is no camera"),
    ],
    ids=["denied", "no_device"],
)
def test_why_there_is_no_camera(url: str, options: list[str], message: str) -> None:
    with run_browser(*options) as browser, visit(browser, url) as opened:
        opened.page.click("#camera")
        assert message in opened.problem()
        assert opened.page.inner_text("#camera") == "Open the camera"
        assert opened.sent == []
