"""A Python without DALI: what can be served is, and the rest is named with the reason."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.damage import copy_model
from tests.support.without_dali import python_without_dali
from tests.triton.model_folders import write_preprocess

PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
INSTALL = "DALI is not installed; install it with `pip install '"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_without_dali(tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for model in ("preprocess", "preprocess_dali", "postprocess", "detector"):
        copy_model(model, folder)
    return folder


def serve(python: Path, repository: Path, *options: str) -> tuple[str, str, int]:
    """What `endcap serve` prints until it is ready or ends, and its exit code."""
    command = [python, "-m", "endcap", "serve", repository, *PORTS, *options]
    with subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("models"):
                left_out = process.stderr.readline()
                process.send_signal(signal.SIGTERM)
                return "".join(lines), left_out, process.wait(60)
        return "".join(lines), process.stderr.read(), process.wait(60)


def test_optional_models_are_left_out_with_an_error_message(python: Path, repository: Path) -> None:
    printed, said, code = serve(python, repository)
    assert code == 0
    models = printed.splitlines()[-1].split(maxsplit=1)[1]
    assert models.strip() == "detector, postprocess, preprocess"
    assert said.startswith(f"endcap: preprocess_dali is left out: {INSTALL}")
    assert said.endswith("'nvidia-dali-cuda130>=2.0'`\n")
    assert said.count("\n") == 1


def test_a_model_that_is_named_fails_with_the_error_message(python: Path, repository: Path) -> None:
    _, said, code = serve(python, repository, "--model", "preprocess_dali")
    assert code == 2
    assert INSTALL in said
    assert said.count("\n") == 1


def test_a_model_that_is_not_optional_fails_with_the_error_message(
    python: Path, tmp_path: Path
) -> None:
    write_preprocess(tmp_path, "pre", variant="dali")
    _, said, code = serve(python, tmp_path)
    assert code == 2
    assert INSTALL in said
