"""The page in a real Chromium, against a real Triton server with the real detector."""

from __future__ import annotations

import base64
import contextlib
import io
from pathlib import Path

import jpegs
import pytest
from pages import (
    SAMPLE_FILES,
    Visit,
    choose,
    choose_and_wait,
    result_of,
    rows_of,
    serve_page,
    visit,
)
from PIL import Image
from playwright.sync_api import Browser, Route, expect

from endcap.client import DetectionClient
from endcap.tools.web.application import BodyLimits

pytest_plugins = ["page_fixtures"]

WIDE = next(path for path in SAMPLE_FILES if "1920x1080" in path.name)
ROTATED = next(path for path in SAMPLE_FILES if "exif6" in path.name)


# --- loading --------------------------------------------------------------------------------------


def test_it_loads_from_its_own_server_alone(
    opened: Visit, url: str, client: DetectionClient
) -> None:
    page = opened.page
    page.wait_for_load_state("networkidle")
    assert page.title() == "endcap"
    assert page.locator("#sample-list img").count() == len(SAMPLE_FILES)
    widths = page.eval_on_selector_all("#sample-list img", "all => all.map(i => i.naturalWidth)")
    assert 0 not in widths
    assert page.locator("#classes li").all_inner_texts() == client.labels
    assert page.inner_text("#server").startswith("model detect at grpc://127.0.0.1:")
    assert [each for each in opened.urls if not each.startswith((url, "blob:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: Browser, url: str, scheme: str) -> None:
    size = {"width": 360, "height": 740}
    with visit(browser, url, viewport=size, color_scheme=scheme, device_scale_factor=2) as opened:
        choose_and_wait(opened, WIDE)
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
        ground = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == {"light": "rgb(244, 246, 246)", "dark": "rgb(15, 21, 20)"}[scheme]


# --- ways in --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SAMPLE_FILES, ids=lambda path: path.stem)
def test_a_chosen_file_shows_what_the_client_finds(
    opened: Visit, client: DetectionClient, path: Path
) -> None:
    choose_and_wait(opened, path)
    expected = result_of(client, path)
    assert opened.sent == [path.read_bytes()], "a JPEG goes as it is"
    assert opened.rows() == rows_of(expected)
    count = len(expected.detections)
    assert opened.page.inner_text("#summary").startswith(f"{count} object")
    label = opened.page.get_attribute("#canvas", "aria-label") or ""
    assert label.startswith(f"{path.name}: {count} object")
    assert opened.page.inner_text("#request-time").endswith(" ms")


TRANSFER = """([content, name]) => {
    const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name, { type: "image/jpeg" }));
    return transfer;
}"""


def test_a_dropped_file_and_a_pasted_one(opened: Visit, client: DetectionClient) -> None:
    def transfer(path: Path) -> object:
        content = base64.b64encode(path.read_bytes()).decode()
        return opened.page.evaluate_handle(TRANSFER, [content, path.name])

    opened.page.dispatch_event("#stage", "dragenter", {"dataTransfer": transfer(ROTATED)})
    assert opened.page.get_attribute("#stage", "data-drop") == ""
    opened.page.dispatch_event("#stage", "drop", {"dataTransfer": transfer(ROTATED)})
    opened.wait_for_result()
    assert opened.page.get_attribute("#stage", "data-drop") is None
    assert opened.rows() == rows_of(result_of(client, ROTATED))

    with opened.page.expect_response("**/detect?*"):
        opened.page.evaluate(
            "data => window.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data }))",
            transfer(WIDE),
        )
    opened.wait_for_result()
    assert opened.rows() == rows_of(result_of(client, WIDE))
    assert opened.sent == [ROTATED.read_bytes(), WIDE.read_bytes()]


def test_a_sample_is_a_click_away(opened: Visit, client: DetectionClient) -> None:
    opened.page.get_by_role("button", name=WIDE.name).press("Enter")
    opened.wait_for_result()
    assert opened.sent == [WIDE.read_bytes()]
    assert opened.rows() == rows_of(result_of(client, WIDE))


@pytest.mark.parametrize("kind", ["PNG", "WebP"])
def test_other_formats_are_converted_and_the_page_says_so(
    opened: Visit, client: DetectionClient, kind: str
) -> None:
    content = io.BytesIO()
    with Image.open(WIDE) as picture:
        picture.resize((960, 540)).save(content, kind)
    choose(opened, f"shapes.{kind.lower()}", content.getvalue(), f"image/{kind.lower()}")
    opened.wait_for_result()
    (sent,) = opened.sent
    with Image.open(io.BytesIO(sent)) as converted:
        assert (converted.format, converted.size) == ("JPEG", (960, 540))
    expected = rows_of(result_of(client, sent))
    assert expected
    assert opened.rows() == expected
    note = opened.page.inner_text("#note")
    assert f"shapes.{kind.lower()} ({kind.upper()}, " in note
    assert "with quality 0.95" in note


def test_a_new_picture_ends_the_request_of_the_last(opened: Visit, client: DetectionClient) -> None:
    held: list[Route] = []
    opened.page.route(f"**/detect?name={WIDE.name}", lambda route: held.append(route))
    opened.page.set_input_files("#file", WIDE)
    opened.page.wait_for_selector("#stage[data-busy][data-state=picture]")
    with opened.page.expect_event("requestfailed") as failed:
        choose_and_wait(opened, ROTATED)
    assert failed.value.url.endswith(WIDE.name)
    assert failed.value.failure == "net::ERR_ABORTED"
    assert opened.rows() == rows_of(result_of(client, ROTATED))
    assert opened.page.get_attribute("#stage", "data-busy") is None


# --- what goes wrong ------------------------------------------------------------------------------

REFUSED = "Failed to load resource: the server responded with a status of 422"


def test_a_broken_jpeg_is_explained_and_the_next_one_works(opened: Visit) -> None:
    choose(opened, "half.jpg", WIDE.read_bytes()[:100_000])
    assert "The JPEG is cut short or damaged" in opened.problem()
    assert opened.page.inner_text("#summary") == "No detections"
    assert opened.rows() == []
    assert opened.page.is_disabled("#save")
    assert opened.problems.pop().startswith(REFUSED)

    choose_and_wait(opened, WIDE)
    assert opened.page.is_hidden("#problem")
    assert opened.rows()


def test_what_is_no_picture_is_explained_without_asking(opened: Visit) -> None:
    choose(opened, "notes.txt", b"no picture", "text/plain")
    assert "notes.txt is none of the formats" in opened.problem()
    assert opened.sent == []


def test_no_objects_is_a_normal_response(opened: Visit) -> None:
    plain = io.BytesIO()
    Image.new("RGB", (640, 480), (128, 128, 128)).save(plain, "JPEG")
    choose(opened, "gray.jpg", plain.getvalue())
    opened.wait_for_result()
    assert opened.page.inner_text("#summary") == "Nothing found"
    assert opened.rows() == []


def test_too_many_bytes_are_explained_without_sending_them(
    browser: Browser, client: DetectionClient
) -> None:
    with (
        serve_page(client, limits=BodyLimits(max_bytes=2000)) as server,
        visit(browser, server.url) as opened,
    ):
        expect(opened.page.locator("#server")).to_contain_text("model detect")
        choose(opened, "photo.jpg", jpegs.photo_jpeg(200, 300))
        assert "2 kB are allowed" in opened.problem()
        assert opened.sent == []


def test_a_page_whose_server_has_stopped_says_so(browser: Browser, client: DetectionClient) -> None:
    with contextlib.ExitStack() as serving:
        server = serving.enter_context(serve_page(client, samples=[WIDE]))
        with visit(browser, server.url) as opened:
            opened.page.wait_for_load_state("networkidle")
            serving.close()
            choose(opened, "photo.jpg", jpegs.photo_jpeg(200, 300))
            assert "The server of this page does not respond" in opened.problem()
            assert "ERR_CONNECTION_REFUSED" in opened.problems.pop()


def test_a_browser_that_gives_no_camera_is_explained(browser: Browser, url: str) -> None:
    hide = "Object.defineProperty(navigator, 'mediaDevices', { value: undefined })"
    with visit(browser, url, init=hide) as opened:
        opened.page.click("#camera")
        assert "only at https:// and on this machine" in opened.problem()
