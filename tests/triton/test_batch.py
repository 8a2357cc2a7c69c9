"""`endcap batch` and the page about data sets, beside a real server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from endcap.client import DetectionClient
from endcap.server import ServerSettings, TritonServer
from tests.support.doc_pages import blocks
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton.running_server import FREE_PORTS

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))

pytestmark = pytest.mark.slow  # a Ray cluster beside a server


def write_photos(folder: Path) -> Path:
    """The samples, and an image of each kind that a server refuses."""
    folder.mkdir()
    for path in SAMPLES:
        shutil.copy(path, folder)
    content = SAMPLES[0].read_bytes()
    (folder / "cut.jpg").write_bytes(content[: len(content) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_bytes(b"no image")
    (folder / "animation.gif").write_bytes(b"GIF89a" + bytes(20))
    return folder


def run(*command: object, folder: Path) -> str:
    """Run Python with a Ray cluster of its own; return its output."""
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=280,
        check=False, cwd=folder,
        env={**os.environ, "RAY_ADDRESS": "local", "PYTHONPATH": str(REPOSITORY.parent)},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("source", ["repository", "url"])
def test_results_are_those_of_the_server(tmp_path: Path, source: str) -> None:
    photos, output = write_photos(tmp_path / "photos"), tmp_path / "results"
    with (
        TritonServer(REPOSITORY, ServerSettings(ports=FREE_PORTS)) as shipped,
        DetectionClient(shipped.grpc_url) as client,
    ):
        network = {"repository": REPOSITORY, "url": shipped.grpc_url}[source]
        arguments = [photos, f"--{source}", network, "-o", output, "--json"]
        summary = json.loads(run("-m", "endcap", "batch", *arguments, folder=tmp_path))
        expected = {Path(each.image).name: each for each in client.detect(sorted(photos.iterdir()))}
    assert summary["images"] == len(SAMPLES) + 4
    rows = {Path(row["path"]).name: row for row in pq.read_table(output).to_pylist()}
    assert rows.keys() == expected.keys()
    for name, row in rows.items():
        result = expected[name]
        assert row["status"] == result.status, name
        if not result.ok:
            assert row["error"]
            continue
        assert row["class_ids"] == result.detections.class_ids.tolist(), name
        assert row["labels"] == result.detections.labels, name
        np.testing.assert_allclose(
            np.reshape(row["boxes"], (-1, 4)), result.detections.boxes, atol=SERVED_BOX_PIXELS
        )
        np.testing.assert_allclose(row["scores"], result.detections.scores, atol=SERVED_SCORE)


def test_the_page(tmp_path: Path) -> None:
    """Its first command and its Python, as a reader would type them."""
    (tmp_path / "photos").mkdir()
    for path in SAMPLES:
        shutil.copy(path, tmp_path / "photos")
    (tmp_path / "models").symlink_to(REPOSITORY)
    page = blocks(REPOSITORY.parent / "docs" / "data_sets.md")
    first = next(block for block in page if block.language == "sh").text.splitlines()[0]
    assert first == "endcap batch photos/ --repository models --output results"
    run("-m", *first.split(), folder=tmp_path)
    program = f"""
from pathlib import Path
from tests.support.doc_pages import blocks, run_python
names, compared = {{}}, 0
for block in blocks(Path({str(page[0].page)!r})):
    if block.language == "python":
        compared += run_python(block, names)
print("compared", compared)
"""
    assert run("-c", program, folder=tmp_path).endswith("compared 5\n")
