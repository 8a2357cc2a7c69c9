"""The page of `endcap.tools.web` as the tests open it: served, visited, and read."""

from __future__ import annotations

import base64
import contextlib
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from endcap.cli.files import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.client import Detection, DetectionClient, ImageResult
from endcap.drawing.draw import class_color
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web.application import make_application
from endcap.tools.web.page_server import PageServer

SAMPLE_FILES = expand_images([str(find_repository() / SAMPLES)])

expect.set_options(timeout=20_000)
_FREE = ServerPorts(http=0, grpc=0, metrics=0)


@contextlib.contextmanager
def run_client(**options: Any) -> Iterator[DetectionClient]:
    """A client of a real server with the shipped repository and its real detector."""
    with (
        TritonServer(find_repository(), ServerSettings(ports=_FREE)) as server,
        DetectionClient(server.grpc_url, **options) as client,
    ):
        yield client


@contextlib.contextmanager
def serve_page(client: DetectionClient, **options: Any) -> Iterator[PageServer]:
    application = make_application(client, **{"host": "127.0.0.1", **options})
    with PageServer(application, host="127.0.0.1", port=0) as server:
        yield server


def result_of(client: DetectionClient, image: bytes | Path) -> ImageResult:
    (result,) = client.detect([image])
    assert result.ok, result
    return result


@dataclass
class Visit:
    """One open page, and what the browser noted about it."""

    page: Page
    problems: list[str] = field(default_factory=list)  # of the console, and uncaught exceptions
    urls: list[str] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list, repr=False)  # the images of POST requests

    def rows(self) -> list[list[str]]:
        """The table: class, of a sequence the track, score, box."""
        return list(
            self.page.eval_on_selector_all(
                "#rows tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
            )
        )

    def wait_for_result(self) -> None:
        expect(self.page.locator("#triton-time")).to_contain_text("ms")

    def drawn_pixels(self) -> NDArray[np.uint8]:
        """What is on the canvas: [height, width, 3]."""
        _, _, content = self.page.evaluate("canvas.toDataURL()").partition(",")
        with Image.open(io.BytesIO(base64.b64decode(content))) as picture:
            return np.asarray(picture.convert("RGB"))

    def problem(self) -> str:
        """The message of the problem that the page shows; waits for one."""
        self.page.wait_for_selector("#problem:not([hidden])")
        return self.page.inner_text("#problem")


@contextlib.contextmanager
def visit(
    browser: Browser, url: str, *, init: str | None = None, **context: Any
) -> Iterator[Visit]:
    """Open the page; a problem that the test has not taken from the list fails it.

    init: a script that runs before those of the page.
    """
    with contextlib.closing(browser.new_context(**context)) as opened:
        opened.set_default_timeout(20_000)
        page = opened.new_page()
        if init is not None:
            page.add_init_script(init)
        seen = Visit(page)
        page.on("pageerror", lambda error: seen.problems.append(str(error)))
        page.on(
            "console",
            lambda message: (
                seen.problems.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("request", lambda request: _note(seen, request))
        page.goto(url)
        page.wait_for_selector("#sample-list img, #samples[hidden]", state="attached")
        yield seen
        assert not seen.problems, seen.problems


def _note(seen: Visit, request: Any) -> None:
    seen.urls.append(request.url)
    if request.method == "POST" and request.post_data_buffer:
        seen.sent.append(request.post_data_buffer)


def sides_drawn(
    pixels: NDArray[np.uint8], detections: Sequence[Detection], *, scale: float, line: int
) -> list[bool]:
    """Tell of each detection whether its left side is there, `line` pixels of its own colour wide.

    pixels: [height, width, 3]; scale: of them to pixels of the picture. A label or a better box may
    lie over a part of the side.
    """
    height, width, _ = pixels.shape
    drawn = []
    for each in detections:
        x1, y1, _, y2 = (round(side * scale) for side in each.box)
        side = pixels[max(0, y1) : min(y2, height), max(0, min(x1, width - line)) :][:, :line]
        own = (side == np.array(class_color(each.class_id), np.uint8)).all(axis=2)
        drawn.append(bool(own.mean() > 0.5))
    return drawn


def rows_of(result: ImageResult) -> list[list[str]]:
    """The table that the page must show."""
    tracked = result.detections.track_ids is not None
    return [
        [
            each.label or f"class {each.class_id}",
            *([str(each.track_id or "")] if tracked else []),
            f"{each.score:.3f}",
            ", ".join(str(math.floor(side + 0.5)) for side in each.box),
        ]
        for each in result.detections
    ]


def choose(opened: Visit, name: str, content: bytes, mime_type: str = "image/jpeg") -> None:
    file = {"name": name, "mimeType": mime_type, "buffer": content}
    opened.page.set_input_files("#file", file)


def choose_and_wait(opened: Visit, path: Path) -> None:
    opened.page.set_input_files("#file", path)
    opened.wait_for_result()
