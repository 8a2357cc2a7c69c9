"""The page of `endcap demo --web`: over HTTP and in a real Chromium, with the real detector."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from endcap.cli.files import SAMPLES, find_repository
from endcap.client import DetectionClient
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web import PageError, make_application, run, serve
from tests.support.browser import run_browser

SAMPLE_FILES = sorted((find_repository() / SAMPLES).glob("*.jpg"))
WIDE = next(path for path in SAMPLE_FILES if "1920x1080" in path.name)
ROTATED = next(path for path in SAMPLE_FILES if "exif6" in path.name)
MAX_BYTES = 4 << 20
CAMERA = (
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def client() -> Iterator[DetectionClient]:
    ports = ServerPorts(http=0, grpc=0, metrics=0)
    with (
        TritonServer(find_repository(), ServerSettings(ports=ports, models=("detect",))) as server,
        DetectionClient(server.grpc_url) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def url(client: DetectionClient) -> Iterator[str]:
    with serve(make_application(client, samples=SAMPLE_FILES, max_bytes=MAX_BYTES)) as url:
        yield url


def post(url: str, body: bytes, query: str = "name=a.jpg", **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"{url}detect?{query}", body, {"Content-Type": "image/jpeg", **headers}
    )
    try:
        with _OPENER.open(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


def detection_rows(client: DetectionClient, image: Path) -> list[dict[str, Any]]:
    return client.detect_one(image).to_dict()["detections"]


def test_a_picture_returns_the_clients_detections_drawn(url: str, client: DetectionClient) -> None:
    status, result = post(url, ROTATED.read_bytes())
    assert status == 200
    assert result["image"] == "a.jpg"
    assert result["detections"] == detection_rows(client, ROTATED)
    assert result["detections"]
    kind, _, content = result["picture"].partition(",")
    assert kind == "data:image/jpeg;base64"
    expected = io.BytesIO()
    client.detect_one(ROTATED).draw(ROTATED).save(expected, "JPEG", quality=90)
    assert base64.b64decode(content) == expected.getvalue()


def test_a_bad_image_is_422_with_its_class(url: str) -> None:
    status, result = post(url, WIDE.read_bytes()[:2000])
    assert status == 422
    assert result["status"] == "corrupt_image"
    assert result["error"]
    assert "picture" not in result


def test_a_body_over_the_limit_is_413(url: str) -> None:
    status, result = post(url, bytes(MAX_BYTES + 1))
    assert status == 413
    assert f"more than {MAX_BYTES} bytes" in result["error"]


def test_a_client_that_leaves_frees_its_place(url: str) -> None:
    """More unfinished uploads than are read at once do not keep others out."""
    address = urllib.parse.urlsplit(url)
    for _ in range(6):
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(
                b"POST /detect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/jpeg\r\n"
                b"Content-Length: 1000000\r\n\r\nbegun"
            )
    assert post(url, WIDE.read_bytes())[0] == 200


def test_connections_that_send_nothing_keep_nobody_out(url: str) -> None:
    address = urllib.parse.urlsplit(url)
    with contextlib.ExitStack() as silent:
        for _ in range(100):
            silent.enter_context(socket.create_connection((address.hostname, address.port)))
        with _OPENER.open(f"{url}samples", timeout=20) as response:
            assert response.status == 200


@pytest.mark.parametrize("name", ["99", "0" * 5000, "x"])
def test_other_samples_do_not_exist(url: str, name: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _OPENER.open(f"{url}samples/{name}", timeout=20)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Content-Type": "text/plain"}, 415), ({"Host": "evil.example"}, 400)],
    ids=["a form of another site", "a name that leads here"],
)
def test_other_sites_reach_nothing(url: str, headers: dict[str, str], status: int) -> None:
    assert post(url, WIDE.read_bytes(), **headers)[0] == status


def test_a_port_that_is_taken_is_one_error_message(client: DetectionClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PageError, match=f"port {port} cannot be used for the page"):
            run(str(client.address), port=port, ready=pytest.fail)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with run_browser(*CAMERA) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 400, "height": 800}, permissions=["camera"])
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(url)
    page.wait_for_selector("#samples img")
    yield page
    page.close()
    assert problems == []
    assert [each for each in requested if not each.startswith((url, "blob:", "data:"))] == []


def shown(page: Page) -> list[str]:
    """Return the classes in the table, after the next result."""
    expect(page.locator("#summary")).to_contain_text(" ms", timeout=20_000)
    return page.locator("#rows tr td:first-child").all_inner_texts()


def test_a_chosen_file_is_shown(page: Page, client: DetectionClient) -> None:
    page.set_input_files("#file", WIDE)
    assert shown(page) == [each["label"] for each in detection_rows(client, WIDE)]
    assert page.evaluate("picture.naturalWidth") == 1600
    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_dropped_file_is_shown(page: Page, client: DetectionClient) -> None:
    transfer = page.evaluate_handle(
        """content => {
            const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], "dropped.jpg", { type: "image/jpeg" }));
            return transfer;
        }""",
        base64.b64encode(ROTATED.read_bytes()).decode(),
    )
    page.dispatch_event("#stage", "drop", {"dataTransfer": transfer})
    assert shown(page) == [each["label"] for each in detection_rows(client, ROTATED)]


def test_a_sample_is_a_click_away(page: Page, client: DetectionClient) -> None:
    page.get_by_title(WIDE.name).click()
    assert len(shown(page)) == len(detection_rows(client, WIDE))


def test_a_broken_file_is_explained_and_the_next_one_works(page: Page, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(WIDE.read_bytes()[:2000])
    page.set_input_files("#file", broken)
    expect(page.locator("#problem")).to_contain_text("broken.jpg: ", timeout=20_000)
    page.set_input_files("#file", WIDE)
    assert shown(page)
    assert page.locator("#problem").is_hidden()


def test_the_camera_sends_frames_until_it_is_stopped(page: Page) -> None:
    frames: list[str] = []
    page.on("response", lambda each: frames.append(each.url) if "/detect" in each.url else None)
    page.click("#camera")
    expect(page.locator("#picture")).to_be_visible(timeout=20_000)
    while len(frames) < 3:
        page.wait_for_event("response", timeout=20_000)
    page.click("#camera")
    assert page.inner_text("#camera") == "Start camera"
