"""Takes the pictures of `endcap demo --web` that the documentation shows.

python scripts/web_screenshots.py [--browser PROGRAM] [--output docs/images]

It runs a real server on the shipped repository, and a headless Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from endcap.cli.files import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.client import DetectionClient
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.web.application import make_application
from endcap.tools.web.page_server import PageServer
from endcap.tools.web.sequences import open_tracking

ROOT = Path(__file__).resolve().parent.parent
MAX_BYTES = 300_000
COLORS = 256
VIDEO_MS = 3500
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def open_sample(page: Page, number: int) -> None:
    """Click a sample and wait for its detections."""
    page.locator("#sample-list button").nth(number).click()
    expect(page.locator("#triton-time")).to_contain_text("ms")
    page.wait_for_load_state("networkidle")


def reduce_colors(shot: Image.Image) -> Image.Image:
    """Return the picture with a palette of its own, dithered."""
    palette = shot.quantize(COLORS, method=Image.Quantize.MEDIANCUT)
    return shot.quantize(COLORS, palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def take(
    browser: Browser, url: str, target: Path, act: Callable[[Page], None], **context: Any
) -> None:
    """Open the page, acts on it, and write what it shows; ValueError where that is too large."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    page.goto(url, wait_until="networkidle")
    act(page)
    page.mouse.move(0, 0)
    with Image.open(io.BytesIO(page.screenshot(full_page=True))) as shot:
        reduce_colors(shot.convert("RGB")).save(target, optimize=True)
    opened.close()
    if target.stat().st_size > MAX_BYTES:
        raise ValueError(f"{target} has {target.stat().st_size} bytes, {MAX_BYTES} are allowed")
    print(f"{target}: {target.stat().st_size} bytes")


def play_video(page: Page, picture: Path) -> None:
    """Play a video of a camera that moves over a picture, and stop it in the middle."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from videos import encode, moving_frames

    content = encode(moving_frames(picture, 75, size=(960, 720), step=(9, 4)), "vp8", rate=15)
    video = {"name": "video.webm", "mimeType": "video/webm", "buffer": content}
    page.set_input_files("#file", [video])
    expect(page.locator("#triton-time")).to_contain_text("ms")
    page.wait_for_timeout(VIDEO_MS)
    page.click("#camera")


def take_all(browser: Browser, url: str, samples: list[Path], output: Path) -> None:
    """Take the pictures: a wide window in light colours, with a video too, a phone in dark ones."""

    def position(part: str) -> int:
        return next((i for i, path in enumerate(samples) if part in path.name), 0)

    take(
        browser,
        url,
        output / "web.png",
        lambda page: open_sample(page, position("1920x1080")),
        viewport={"width": 1280, "height": 800},
        color_scheme="light",
    )
    take(
        browser,
        url,
        output / "web_video.png",
        lambda page: play_video(page, samples[position("1920x1080")]),
        viewport={"width": 1100, "height": 720},
        color_scheme="light",
    )
    take(
        browser,
        url,
        output / "web_phone.png",
        lambda page: open_sample(page, position("512x600")),
        viewport={"width": 390, "height": 844},
        color_scheme="dark",
        device_scale_factor=1.5,
    )


def main() -> None:
    """Start what is needed, takes the pictures, and end it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    on_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    parser.add_argument("--browser", default=on_path, help="else Playwright's own")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    repository = find_repository()
    samples = expand_images([str(repository / SAMPLES)])
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    options.output.mkdir(parents=True, exist_ok=True)
    with (
        TritonServer(repository, settings) as triton,
        DetectionClient(triton.grpc_url) as client,
        open_tracking(client, 4) or contextlib.nullcontext() as tracking,
        PageServer(
            make_application(client, host="127.0.0.1", samples=samples, tracking=tracking),
            host="127.0.0.1",
            port=0,
        ) as server,
        sync_playwright() as playwright,
    ):
        client.detect(samples)  # the first requests of a server are slower than all others
        browser = playwright.chromium.launch(executable_path=options.browser)
        take_all(browser, server.url, samples, options.output)
        browser.close()


if __name__ == "__main__":
    main()
