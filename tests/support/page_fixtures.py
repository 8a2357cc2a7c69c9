"""What the tests of the page share: a browser, the server behind it, and the page opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import run_browser
from pages import (
    SAMPLE_FILES,
    Visit,
    run_client,
    serve_page,
    visit,
)
from playwright.sync_api import Browser

from endcap.client import DetectionClient


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
