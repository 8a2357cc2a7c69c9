"""A headless Chromium for the tests of the page."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error, Playwright, sync_playwright

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def _launch(playwright: Playwright, options: list[str]) -> Browser:
    """Start a Chromium that is on PATH, else the one that playwright installed."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    try:
        return playwright.chromium.launch(executable_path=program, args=options)
    except Error as error:
        pytest.fail(
            "the page is tested in Chromium, and none starts: install the package "
            "chromium-headless-shell or chromium, or set ENDCAP_NO_BROWSER=1 to leave it out\n"
            f"{error.message}",
            pytrace=False,
        )


@contextlib.contextmanager
def run_browser(*options: str) -> Iterator[Browser]:
    """Run a browser with command line options; skips with ENDCAP_NO_BROWSER=1."""
    if os.environ.get("ENDCAP_NO_BROWSER") == "1":
        pytest.skip("ENDCAP_NO_BROWSER=1")
    with sync_playwright() as playwright:
        browser = _launch(playwright, list(options))
        try:
            yield browser
        finally:
            browser.close()
