"""endcap env pack and check: a real environment, packed offline and used elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from endcap.environment import ExecutionEnvironmentError
from endcap.environment.checking import check_folder
from endcap.triton.model_config import read_lines
from endcap.triton.parameters import EXECUTION_ENVIRONMENT
from tests.support.cli_runs import assert_error_message, endcap
from tests.support.conda_channel import SITE_PACKAGES, VERSION, write_channel
from tests.support.packed_environments import (
    CONFIG,
    Workshop,
    clean_environment,
    workshop,
    write_python_model,
)

DEADLINE_S = 60.0
IMPORTS = """
import json, sys, numpy, endcap
kept = endcap.nms(numpy.array([[0, 0, 9, 9], [1, 1, 9, 9]], "f4"), numpy.array([.5, .9], "f4"), .5)
print(json.dumps([sys.prefix, numpy.__file__, endcap.__file__, numpy.__version__, kept.tolist()]))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with workshop(tmp_path_factory.mktemp("workshop")) as made:
        yield made


@pytest.fixture(scope="module")
def packed(shop: Workshop, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Result]:
    """The archive, a model that was given it, and the command's output."""
    folder = tmp_path_factory.mktemp("packed")
    model = write_python_model(folder / "models" / "echo")
    result = shop.pack("-o", folder / "env.tar.gz", "--into", model)
    assert result.exit_code == 0, result.output
    return folder / "env.tar.gz", model, result


@pytest.fixture(scope="module")
def unpacked(packed: tuple[Path, Path, Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment in another place, as `tar` unpacks it."""
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "xzf", packed[0], "-C", folder], check=True)
    return folder


def test_the_environment_works_in_another_place(unpacked: Path) -> None:
    command = ["bash", "-c", f"source {unpacked}/bin/activate && python3 -c '{IMPORTS}'"]
    finished = subprocess.run(command, env=clean_environment(), capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    prefix, numpy_file, endcap_file, version, kept = json.loads(finished.stdout)
    assert prefix == str(unpacked)
    assert numpy_file.startswith(prefix)
    assert endcap_file.startswith(prefix)
    assert version == np.__version__
    assert kept == [1]


def test_size_and_contents_are_printed(packed: tuple[Path, Path, Result]) -> None:
    archive, model, result = packed
    heading, sizes, numpy, *rows = result.stdout.splitlines()
    assert heading == f"Wrote {archive}, {model / 'env.tar.gz'}"
    assert sizes.startswith(f"{archive.stat().st_size / 1e6:.1f} MB, ")
    assert sizes.endswith(f"Python {VERSION}")
    assert numpy.startswith(f"NumPy {np.__version__}; must be numpy<2: ")
    cells = {row.split()[0]: row.split()[1] for row in rows}
    assert cells.keys() == {"python", "numpy", "endcap"}
    assert cells["numpy"] == np.__version__


def test_a_model_gets_archive_stub_and_parameter(packed: tuple[Path, Path, Result]) -> None:
    archive, model, _ = packed
    assert (model / "env.tar.gz").read_bytes() == archive.read_bytes()
    assert os.access(model / "triton_python_backend_stub", os.X_OK)
    text = (model / "config.pbtxt").read_text()
    assert text.startswith(CONFIG)
    assert (
        read_lines(text).parameter(EXECUTION_ENVIRONMENT) == "$$TRITON_MODEL_DIRECTORY/env.tar.gz"
    )


def test_nothing_is_left_of_what_was_made_on_the_way(
    packed: tuple[Path, Path, Result], shop: Workshop
) -> None:
    archive, model, _ = packed
    assert list(shop.temporary.glob("endcap-*")) == []
    assert {path.name for path in archive.parent.iterdir()} == {"env.tar.gz", "models"}
    assert list(model.glob(".*")) == []


def test_an_archive_that_works_passes(
    packed: tuple[Path, Path, Result],
) -> None:
    archive, _, written = packed
    result = endcap("env", "check", archive, columns=200)
    assert result.exit_code == 0, result.output
    heading, *rest = result.stdout.splitlines()
    assert heading == f"{archive} works"
    assert rest == written.stdout.splitlines()[1:]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_checksum(content: bytes) -> bytes:
    return content[:-4]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(256) + content[middle + 256 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "is not a tar.gz that Triton can unpack"),
        (without_checksum, "end-of-stream marker"),
        (flipped, "is not a tar.gz that Triton can unpack"),
        (lambda content: b"PK" + content, "not a gzip file"),
        (lambda content: b"", "is not a tar.gz that Triton can unpack"),
    ],
    ids=["cut", "checksum", "flipped", "zip", "empty"],
)
def test_a_damaged_archive_is_reported(
    packed: tuple[Path, Path, Result],
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
    message: str,
) -> None:
    archive = tmp_path / "env.tar.gz"
    archive.write_bytes(damage(packed[0].read_bytes()))
    assert_error_message(endcap("env", "check", archive), str(archive), message)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("bin/python3", None, "has no bin/python3"),
        ("bin/activate", None, "has no bin/activate"),
        (f"lib/libpython{VERSION}.so.1.0", None, "which Triton's stub loads"),
        (
            f"{SITE_PACKAGES}/numpy/__init__.py",
            "1 / 0",
            "imported: numpy: ZeroDivisionError",
        ),
    ],
    ids=["python3", "activate", "libpython", "numpy"],
)
def test_what_an_environment_lacks_is_reported(
    unpacked: Path, tmp_path: Path, path: str, content: str | None, message: str
) -> None:
    kept = (unpacked / path).rename(tmp_path / "kept")
    try:
        if content is not None:
            (unpacked / path).write_text(content)
        with pytest.raises(ExecutionEnvironmentError, match=message) as refused:
            check_folder(unpacked, unpacked)
        assert str(unpacked) in str(refused.value)
    finally:
        kept.replace(unpacked / path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--package", "numpy >=2"], "numpy <2 fits together"),
        (["--package", "nosuch >=1"], "No candidates were found for nosuch"),
        (["--package", "bad["], "one of --package is not a conda specification"),
        (["--package", "*"], "one of --package is not a conda specification"),
        (["--pip", "nosuchpackage"], "No matching distribution found for nosuchpackage"),
        (["--pip", "numpy>=2"], "numpy"),
        (["--channel", "./nothing/here"], "is not a folder"),
        (["--into", "nowhere"], "has no config.pbtxt"),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_what_cannot_be_packed_is_reported_and_leaves_nothing(
    shop: Workshop, tmp_path: Path, options: list[str], message: str
) -> None:
    output = tmp_path / "env.tar.gz"
    output.write_bytes(b"before")
    result = shop.pack("-o", output, *options)
    assert_error_message(result, message)
    assert [path.name for path in tmp_path.iterdir()] == ["env.tar.gz"]
    assert output.read_bytes() == b"before"
    assert list(shop.temporary.glob("endcap-*")) == []


def test_a_channel_that_does_not_respond_is_reported(shop: Workshop, tmp_path: Path) -> None:
    result = shop.pack("-o", tmp_path / "env.tar.gz", channel="http://127.0.0.1:9/channel")
    assert_error_message(result, "127.0.0.1:9", "cannot be read", "give a folder by --channel")


def test_a_python_without_python3_is_reported(shop: Workshop, tmp_path: Path) -> None:
    python = {"name": "python", "version": f"{VERSION}.0", "files": {f"bin/python{VERSION}": b""}}
    packages = [python, {"name": "numpy", "version": "1.0"}]
    channel = write_channel(tmp_path / "channel", packages)
    result = shop.pack("-o", tmp_path / "env.tar.gz", channel=channel)
    assert_error_message(result, "has no bin/python3")


@pytest.mark.parametrize("when", ["environment/conda-meta/*.json", "tmp*"], ids=["links", "packs"])
def test_an_interrupt_leaves_nothing(shop: Workshop, tmp_path: Path, when: str) -> None:
    output = tmp_path / "env.tar.gz"
    command = [sys.executable, "-m", "endcap", *shop.arguments("-o", output)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + DEADLINE_S
    while not list(shop.temporary.glob(f"endcap-*/{when}")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out, err) == (130, "", "")
    assert list(tmp_path.iterdir()) == []
    assert list(shop.temporary.glob("endcap-*")) == []


def test_a_name_that_was_not_given_replaces_nothing(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_text("precious")
    archive = tmp_path / "environment.tar.gz"
    for make in (lambda: archive.symlink_to("victim"), lambda: archive.write_text("mine")):
        make()
        assert_error_message(shop.pack(), "environment.tar.gz exists already", "by --output")
        assert archive.read_text() in ("precious", "mine")
        archive.unlink()
    assert (tmp_path / "victim").read_text() == "precious"


def test_only_tar_gz_is_written(shop: Workshop, tmp_path: Path) -> None:
    assert_error_message(shop.pack("-o", tmp_path / "env.zip"), "name it .tar.gz")
