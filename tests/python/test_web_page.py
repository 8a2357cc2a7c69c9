"""The page in a real Chromium, against a real Triton server with the real detector."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

import jpegs
import pytest
from browser import run_browser
from pages import (
    SAMPLE_FILES,
    Visit,
    result_of,
    rows_of,
    run_client,
    serve_page,
    sides_drawn,
    visit,
)
from PIL import Image
from playwright.sync_api import Browser, Route, expect

from endcap.client import DetectionClient, ImageResult
from endcap.draw import class_color

WIDE = next(path for path in SAMPLE_FILES if "1920x1080" in path.name)
TURNED = next(path for path in SAMPLE_FILES if "exif6" in path.name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with run_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def client(browser: Browser) -> Iterator[DetectionClient]:
    with run_client() as client:
        yield client


@pytest.fixture(scope="module")
def url(client: DetectionClient) -> Iterator[str]:
    with serve_page(client, samples=SAMPLE_FILES) as server:
        yield server.url


@pytest.fixture
def opened(browser: Browser, url: str) -> Iterator[Visit]:
    with visit(browser, url, viewport={"width": 1280, "height": 800}) as opened:
        yield opened


def choose(opened: Visit, name: str, content: bytes, mime_type: str = "image/jpeg") -> None:
    file = {"name": name, "mimeType": mime_type, "buffer": content}
    opened.page.set_input_files("#file", file)


def choose_and_wait(opened: Visit, path: Path) -> None:
    opened.page.set_input_files("#file", path)
    opened.wait_for_result()


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

    opened.page.dispatch_event("#stage", "dragenter", {"dataTransfer": transfer(TURNED)})
    assert opened.page.get_attribute("#stage", "data-drop") == ""
    opened.page.dispatch_event("#stage", "drop", {"dataTransfer": transfer(TURNED)})
    opened.wait_for_result()
    assert opened.page.get_attribute("#stage", "data-drop") is None
    assert opened.rows() == rows_of(result_of(client, TURNED))

    with opened.page.expect_response("**/detect?*"):
        opened.page.evaluate(
            "data => window.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data }))",
            transfer(WIDE),
        )
    opened.wait_for_result()
    assert opened.rows() == rows_of(result_of(client, WIDE))
    assert opened.sent == [TURNED.read_bytes(), WIDE.read_bytes()]


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
        choose_and_wait(opened, TURNED)
    assert failed.value.url.endswith(WIDE.name)
    assert failed.value.failure == "net::ERR_ABORTED"
    assert opened.rows() == rows_of(result_of(client, TURNED))
    assert opened.page.get_attribute("#stage", "data-busy") is None


# --- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize("pixel_ratio", [1, 2])
@pytest.mark.parametrize("path", [WIDE, TURNED], ids=lambda path: path.stem)
def test_boxes_are_sharp_and_where_they_belong(
    browser: Browser, url: str, client: DetectionClient, path: Path, pixel_ratio: int
) -> None:
    result = result_of(client, path)
    with Image.open(path) as picture:
        upright_width = picture.height if path == TURNED else picture.width
    view = {"width": 1280, "height": 800}
    with visit(browser, url, viewport=view, device_scale_factor=pixel_ratio) as opened:
        choose_and_wait(opened, path)
        pixels = opened.drawn_pixels()
        scale = pixels.shape[1] / upright_width
        drawn = sides_drawn(pixels, result.detections, scale=scale, line=2 * pixel_ratio)
        assert all(drawn), drawn


def drawn(opened: Visit, result: ImageResult) -> list[bool]:
    """Which boxes of the wide sample are on the canvas, at one pixel per CSS pixel."""
    pixels = opened.drawn_pixels()
    return sides_drawn(pixels, result.detections, scale=pixels.shape[1] / 1920, line=2)


def test_the_slider_filters_table_boxes_and_json(
    browser: Browser, url: str, client: DetectionClient
) -> None:
    with visit(browser, url, permissions=["clipboard-read", "clipboard-write"]) as opened:
        choose_and_wait(opened, WIDE)
        result = result_of(client, WIDE)
        page = opened.page
        assert all(drawn(opened, result))
        scores = [each.score for each in result.detections]
        least = int(100 * (scores[0] + scores[-1]) / 2) / 100
        kept = [each for each in result.detections if each.score >= least]
        assert 0 < len(kept) < len(scores)
        page.fill("#threshold", str(least))
        assert opened.rows() == rows_of(result)[: len(kept)]
        assert page.inner_text("#summary") == f"{len(kept)} of {len(scores)} objects shown"
        assert page.inner_text("#threshold-value") == f"{least:.2f}"
        assert drawn(opened, result) == [each in kept for each in result.detections]
        assert len(opened.sent) == 1, "the server is not asked again"

        page.click("#copy")
        expect(page.locator("#done")).to_have_text("Copied")
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        expected = {**result.to_json(), "image": WIDE.name}
        assert copied == {**expected, "detections": expected["detections"][: len(kept)]}

        page.hover("h1")  # or a row would come to lie under the pointer
        page.fill("#threshold", "0")
        assert all(drawn(opened, result))


def test_a_row_and_its_box_are_highlighted_together(opened: Visit, client: DetectionClient) -> None:
    choose_and_wait(opened, WIDE)
    result = result_of(client, WIDE)
    page = opened.page
    second_alone = [index == 1 for index in range(len(result.detections))]
    assert all(drawn(opened, result))
    page.hover("#rows tr:nth-child(2)")
    assert drawn(opened, result) == second_alone, "the others are faded"
    page.hover("h1")
    assert all(drawn(opened, result))

    page.focus("#rows tr:nth-child(1)")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.sectionRowIndex") == 1
    assert drawn(opened, result) == second_alone

    x1, y1, x2, y2 = map(int, opened.rows()[0][2].split(", "))
    bounds = page.locator("#canvas").bounding_box()
    assert bounds is not None
    scale = bounds["width"] / 1920
    page.mouse.move(bounds["x"] + scale * (x1 + x2) / 2, bounds["y"] + scale * (y1 + y2) / 2)
    assert page.locator("#rows tr.marked").count() == 1
    assert "marked" in (page.locator("#rows tr").first.get_attribute("class") or "")


@pytest.mark.parametrize("path", [WIDE, TURNED], ids=lambda path: path.stem)
def test_the_saved_picture_has_its_full_size_and_the_boxes(
    opened: Visit, client: DetectionClient, path: Path
) -> None:
    choose_and_wait(opened, path)
    with opened.page.expect_download() as download:
        opened.page.click("#save")
    assert download.value.suggested_filename == f"{path.stem}_detections.jpg"
    best = result_of(client, path).detections[0]
    with Image.open(path) as source, Image.open(download.value.path()) as saved:
        size = source.size[::-1] if path == TURNED else source.size
        assert (saved.format, saved.size) == ("JPEG", size)
        left, middle = round(best.box[0]), round((best.box[1] + best.box[3]) / 2)
        pixel = saved.getpixel((left + 1, middle))
    assert isinstance(pixel, tuple)
    # JPEG halves the resolution of colour; the line is a few pixels wide.
    distances = [abs(a - b) for a, b in zip(pixel, class_color(best.class_id), strict=True)]
    assert max(distances) < 70


PLACES = """async () => {
    const { placeLabel } = await import("./labels.js");
    let state = 1;
    const random = (below) => (state = (state * 48271) % 2147483647) % below;
    const failures = [];
    for (let round = 0; round < 5000; round += 1) {
        const bounds = { width: 60 + random(400), height: 40 + random(300) };
        const size = { width: 5 + random(55), height: 5 + random(20) };
        const [x1, y1] = [random(bounds.width), random(bounds.height)];
        const [x2, y2] = [x1 + 1 + random(bounds.width - x1), y1 + 1 + random(bounds.height - y1)];
        const place = placeLabel([x1, y1, x2, y2], size, bounds, []);
        const inside = place.x >= 0 && place.y >= 0 && place.x + size.width <= bounds.width
            && place.y + size.height <= bounds.height;
        if (!inside) failures.push([bounds, size, [x1, y1, x2, y2], place]);
    }
    const first = placeLabel([50, 50, 90, 90], { width: 30, height: 10 },
        { width: 200, height: 200 }, []);
    const second = placeLabel([50, 50, 90, 90], { width: 30, height: 10 },
        { width: 200, height: 200 }, [first]);
    return { failures, first, second };
}"""


def test_labels_stay_inside_and_give_way_to_each_other(opened: Visit) -> None:
    answer = opened.page.evaluate(PLACES)
    assert answer["failures"] == []
    size = {"width": 30, "height": 10}
    assert answer["first"] == {"x": 50, "y": 40, **size}
    assert answer["second"] == {"x": 50, "y": 90, **size}


def test_a_name_of_a_class_is_text(browser: Browser, client: DetectionClient) -> None:
    hostile = '<img src="x" onerror="document.title = 1">' + "long " * 30
    names = DetectionClient(str(client.address), labels=[hostile] * 6)
    view = {"width": 360, "height": 740}
    with (
        names,
        serve_page(names) as server,
        visit(browser, server.url, viewport=view) as opened,
    ):
        choose_and_wait(opened, WIDE)
        assert opened.rows()[0][0] == hostile
        assert opened.page.title() == "endcap"
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 360


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


def test_no_objects_is_a_normal_answer(opened: Visit) -> None:
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
        serve_page(client, max_body_bytes=2000) as server,
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
            assert "The server of this page does not answer" in opened.problem()
            assert "ERR_CONNECTION_REFUSED" in opened.problems.pop()


def test_a_browser_that_gives_no_camera_is_explained(browser: Browser, url: str) -> None:
    hide = "Object.defineProperty(navigator, 'mediaDevices', { value: undefined })"
    with visit(browser, url, init=hide) as opened:
        opened.page.click("#camera")
        assert "only at https:// and on this machine" in opened.problem()
