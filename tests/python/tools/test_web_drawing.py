"""What the page draws and lists, in a real Chromium, against the real detector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import (
    SAMPLE_FILES,
    Visit,
    choose_and_wait,
    result_of,
    rows_of,
    serve_page,
    sides_drawn,
    visit,
)
from PIL import Image
from playwright.sync_api import Browser, expect

from endcap.client import DetectionClient, ImageResult
from endcap.drawing.draw import class_color

pytest_plugins = ["page_fixtures"]

WIDE = next(path for path in SAMPLE_FILES if "1920x1080" in path.name)
ROTATED = next(path for path in SAMPLE_FILES if "exif6" in path.name)


@pytest.mark.parametrize("pixel_ratio", [1, 2])
@pytest.mark.parametrize("path", [WIDE, ROTATED], ids=lambda path: path.stem)
def test_boxes_are_sharp_and_where_they_belong(
    browser: Browser, url: str, client: DetectionClient, path: Path, pixel_ratio: int
) -> None:
    result = result_of(client, path)
    with Image.open(path) as picture:
        upright_width = picture.height if path == ROTATED else picture.width
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
        assert len(opened.sent) == 1, "no other request is sent"

        page.click("#copy")
        expect(page.locator("#done")).to_have_text("Copied")
        copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
        expected = {**result.to_dict(), "image": WIDE.name}
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


@pytest.mark.parametrize("path", [WIDE, ROTATED], ids=lambda path: path.stem)
def test_the_saved_picture_has_its_full_size_and_the_boxes(
    opened: Visit, client: DetectionClient, path: Path
) -> None:
    choose_and_wait(opened, path)
    with opened.page.expect_download() as download:
        opened.page.click("#save")
    assert download.value.suggested_filename == f"{path.stem}_detections.jpg"
    best = result_of(client, path).detections[0]
    with Image.open(path) as source, Image.open(download.value.path()) as saved:
        size = source.size[::-1] if path == ROTATED else source.size
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
    response = opened.page.evaluate(PLACES)
    assert response["failures"] == []
    size = {"width": 30, "height": 10}
    assert response["first"] == {"x": 50, "y": 40, **size}
    assert response["second"] == {"x": 50, "y": 90, **size}


# A box of 120 x 20 around 100, 100, and where it is drawn: upright, and after a quarter turn.
ROTATED_BOXES = """async () => {
    const { drawDetections } = await import("./draw.js");
    const drawn = (angle) => {
        const canvas = new OffscreenCanvas(200, 200);
        const context = canvas.getContext("2d", { willReadFrequently: true });
        const detection = { box: [40, 90, 160, 110], score: 0.5, class_id: 0, label: "x", angle };
        const colors = { classes: { 0: "#ff0000" } };
        drawDetections(context, [detection], { scale: 1, unit: 1, colors });
        const painted = (x, y, width = 1, height = 1) =>
            context.getImageData(x, y, width, height).data.some((value) => value > 0);
        return { left: painted(41, 100), right: painted(158, 100),
                 top: painted(100, 41), bottom: painted(100, 158),
                 label: painted(80, 20, 40, 15) };
    };
    return [drawn(undefined), drawn(Math.PI / 2)];
}"""


def test_rotated_boxes_are_drawn_rotated(opened: Visit) -> None:
    upright, rotated = opened.page.evaluate(ROTATED_BOXES)
    nowhere = dict.fromkeys(("left", "right", "top", "bottom", "label"), False)
    assert upright == nowhere | {"left": True, "right": True}
    assert rotated == nowhere | {"top": True, "bottom": True, "label": True}


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
