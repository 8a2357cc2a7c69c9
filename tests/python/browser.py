"""A headless Chromium for the tests of the page."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser(playwright: Playwright) -> str | None:
    """The program of a Chromium: one on PATH, else playwright's own, else None."""
    own = playwright.chromium.executable_path
    on_path = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    return on_path or (own if Path(own).exists() else None)


@contextlib.contextmanager
def run_browser(*options: str) -> Iterator[Browser]:
    """Runs a browser with command line options; skips with ENDCAP_NO_BROWSER=1."""
    if os.environ.get("ENDCAP_NO_BROWSER") == "1":
        pytest.skip("ENDCAP_NO_BROWSER=1")
    with sync_playwright() as playwright:
        program = find_browser(playwright)
        if program is None:
            pytest.fail(
                "the page is tested in Chromium, and there is none: install the package "
                "chromium-headless-shell or chromium, or set ENDCAP_NO_BROWSER=1 to leave it out",
                pytrace=False,
            )
        browser = playwright.chromium.launch(executable_path=program, args=list(options))
        try:
            yield browser
        finally:
            browser.close()
