"""A server with known responses for all tests of commands, and pictures that are sent to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import classifying_model
from tests.support.cli_runs import model_server, write_pictures
from tests.support.echo_model import write_echo_model, write_model


@pytest.fixture(scope="session")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Addresses by protocol of the models detect, classify, broken (its labels) and echo."""
    folder = tmp_path_factory.mktemp("models")
    config, code = classifying_model.CONFIG, classifying_model.MODEL
    write_model(folder, "classify", config + classifying_model.LABELS, code)
    write_model(folder, "broken", config + classifying_model.BROKEN_LABELS, code)
    write_echo_model(folder)
    with model_server(folder) as urls:
        yield urls


@pytest.fixture(scope="session")
def url(urls: dict[str, str]) -> str:
    return urls["grpc"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "pictures")
