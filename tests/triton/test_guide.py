"""The Triton guide as a reader follows it: its files in a real server, its clients against it.

docs/requests.md and docs/second_networks.md continue it; the clients of docs/clients.md and
docs/shared_memory.md use it too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

import endcap
from tests.support import jpegs
from tests.support.doc_pages import ROOT, Block, blocks, run_python
from tests.support.onnx_heads import write_one_box
from tests.triton.running_server import RunningServer, metrics_in_the_guide, run_server

PAGES = [ROOT / "docs" / name for name in ("triton.md", "requests.md", "second_networks.md")]
BLOCKS = [block for page in PAGES for block in blocks(page)]
CLIENT_PAGES = [ROOT / "docs" / name for name in ("clients.md", "shared_memory.md")]
CLIENT_BLOCKS = [block for page in CLIENT_PAGES for block in blocks(page)]
CURLS = {block.caption: block for block in BLOCKS if "curl " in block.text}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reader's folder: photo.jpg, and models/ with every file that the guide shows."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "photo.jpg").write_bytes(jpegs.photo_jpeg(720, 1280))
    for block in BLOCKS:
        if block.caption.startswith("models/"):
            path = folder / block.caption
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    for model in (folder / "models").iterdir():
        (model / "1").mkdir(exist_ok=True)
    write_one_box(folder / "models" / "detector" / "1" / "model.onnx")
    return folder


@pytest.fixture(scope="module")
def guide_server(reader: Path) -> Iterator[RunningServer]:
    with run_server(reader / "models") as running:
        running.expect_all()
        yield running


def at(server: RunningServer, block: Block) -> Block:
    """The block with the server's own ports in place of the usual ones."""
    text = block.text.replace("127.0.0.1:8001", server.grpc).replace("127.0.0.1:8000", server.http)
    assert text != block.text, f"{block} names no server"
    return Block(block.page, block.line, block.language, block.caption, text)


def test_the_guide_shows_a_whole_repository(guide_server: RunningServer) -> None:
    configs = [block for block in BLOCKS if "config.pbtxt" in block.caption]
    for block in configs:  # also those of backends that the server does not have
        text_format.Parse(block.text, model_config_pb2.ModelConfig())
    shown = {block.caption.split("/")[1] for block in configs if block.caption[:7] == "models/"}
    assert set(guide_server.index()) == shown
    assert len(shown) == 6


@pytest.mark.parametrize("blocks_of_pages", [BLOCKS, CLIENT_BLOCKS], ids=["guide", "clients"])
def test_the_python_clients(
    guide_server: RunningServer,
    reader: Path,
    monkeypatch: pytest.MonkeyPatch,
    blocks_of_pages: list[Block],
) -> None:
    monkeypatch.chdir(reader)
    names: dict[str, Any] = {"endcap": endcap, "jpeg": Path("photo.jpg").read_bytes()}
    python = [b for b in blocks_of_pages if b.language == "python"]
    clients = [b for b in python if not b.caption.startswith("models/")]
    compared = [run_python(at(guide_server, block), names) for block in clients]
    assert len(compared) == 5
    assert min(compared) > 0


def run_shell(block: Block, server: RunningServer, folder: Path) -> None:
    """Runs a block of curl in bash; a server on this machine is never behind a proxy."""
    assert shutil.which("curl"), "this test runs curl: apt-get install curl"
    script = "set -eu -o pipefail\n" + at(server, block).text
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "no_proxy": "*"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()


def test_curl_with_the_file_as_the_body(guide_server: RunningServer, reader: Path) -> None:
    run_shell(CURLS["a raw binary request"], guide_server, reader)
    response = (reader / "response.bin").read_bytes()
    description, end = json.JSONDecoder().raw_decode(response.decode("latin-1"))
    for output in description["outputs"]:
        size = output["parameters"]["binary_data_size"]
        if output["name"] == "detection_boxes":
            boxes = np.frombuffer(response[end : end + size], np.float32).reshape(output["shape"])
            assert boxes[0, 0].tolist() == [200, 120, 600, 520]
        end += size
    assert end == len(response)


@pytest.mark.parametrize("caption", ["JSON in front, JSON as the response", "a file in JSON"])
def test_curl_with_json(guide_server: RunningServer, reader: Path, caption: str) -> None:
    run_shell(CURLS[caption], guide_server, reader)
    response = json.loads((reader / "response.json").read_text(encoding="utf-8"))
    outputs = {output["name"]: output["data"] for output in response["outputs"]}
    assert outputs["num_detections"] == [1]
    assert outputs["detection_scores"][:2] == [0.875, 0]


def test_the_metrics_of_the_guide_are_the_servers(guide_server: RunningServer) -> None:
    for backend in ("preprocess", "postprocess", "onnx"):
        assert metrics_in_the_guide(backend) == guide_server.metrics(backend)


def run_command(beginning: str, folder: Path, page: str = "triton.md") -> str:
    """Runs the shell block of a page that begins so, in a folder; returns what it prints."""
    (block,) = [
        b
        for b in blocks(ROOT / "docs" / page)
        if b.language == "sh" and b.text.startswith(beginning)
    ]
    environment = {"PATH": f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"}
    command = ["bash", "-c", block.text]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_command_that_prints_a_networks_tensors(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").symlink_to(ROOT / "model_repository/detector/1/model.onnx")
    printed = run_command('python -c "import onnxruntime', tmp_path)
    assert "'images', 'tensor(float)'" in printed
    assert "10, 8400]" in printed


def test_the_command_that_prints_where_the_backends_lie(tmp_path: Path) -> None:
    printed = run_command('python -c "from endcap.triton', tmp_path, "serving.md")
    folders = [Path(line) for line in printed.split()]
    names = [
        "endcap_preprocess",
        "endcap_postprocess",
        "endcap_onnx",
        "endcap_bls",
        "endcap_track",
    ]
    assert [folder.name for folder in folders] == names
    assert all((folder / f"libtriton_{folder.name}.so").is_file() for folder in folders)
