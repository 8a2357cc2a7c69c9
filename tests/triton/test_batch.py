"""`endcap batch` and the page about data sets, beside a real server."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster on this machine.

    Attributes:
        address: HOST:PORT.
        folder: The current folder of its processes.
        environment: With the token that it asks for.
    """

    address: str
    folder: Path
    environment: dict[str, str]


CLUSTER = """
import sys
from endcap.batch.run import connected

with connected(None) as ray:
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of all runs that need none of their own: its start takes longer than they do."""
    folder = tmp_path_factory.mktemp("cluster")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, **token, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the cluster did not start"
        yield Cluster(address, folder, environment)
        process.communicate(timeout=60)  # the end of its input ends it
        assert process.returncode == 0


def endcap_batch(cluster: Cluster, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "endcap", "batch", *map(str, arguments), "--json"]
    result = subprocess.run(
        [*command, "--address", cluster.address], capture_output=True, text=True, timeout=280,
        check=False, env=cluster.environment,
    )  # fmt: skip
    assert result.returncode in (0, 1), result.stderr
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples, and an image of each kind that a server refuses."""
    folder = tmp_path_factory.mktemp("photos")
    for path in SAMPLES:
        shutil.copy(path, folder)
    content = SAMPLES[0].read_bytes()
    (folder / "cut.jpg").write_bytes(content[: len(content) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_bytes(b"no image")
    (folder / "animation.gif").write_bytes(b"GIF89a" + bytes(20))
    return folder


def test_results_without_a_server_are_those_of_the_server(
    cluster: Cluster, photos: Path, tmp_path: Path
) -> None:
    local = endcap_batch(cluster, photos, "--repository", REPOSITORY, "-o", tmp_path / "local")
    assert local["images"] == len(SAMPLES) + 4
    with (
        TritonServer(REPOSITORY, ServerSettings(ports=FREE_PORTS)) as shipped,
        DetectionClient(shipped.grpc_url) as client,
    ):
        expected = {Path(each.image).name: each for each in client.detect(sorted(photos.iterdir()))}
    table = pq.read_table(tmp_path / "local")
    rows = {Path(row["path"]).name: row for row in table.to_pylist()}
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


def test_the_page(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first command and its Python, as a reader would type them."""
    monkeypatch.chdir(cluster.folder)
    Path("photos").mkdir()
    for path in SAMPLES:
        shutil.copy(path, "photos")
    Path("models").symlink_to(REPOSITORY)
    page = blocks(REPOSITORY.parent / "docs" / "data_sets.md")
    first = next(block for block in page if block.language == "sh").text.splitlines()[0]
    assert first == "endcap batch photos/ --repository models --output results"
    command = [sys.executable, "-m", *first.split()]
    subprocess.run(command, capture_output=True, timeout=280, check=True)
    program = "\n".join(
        [
            "from tests.support.doc_pages import blocks, run_python",
            "from pathlib import Path",
            "import ray",
            f"ray.init(address={cluster.address!r}, log_to_driver=False)",
            "names, compared = {}, 0",
            f"for block in blocks(Path({str(page[0].page)!r})):",
            "    if block.language == 'python':",
            "        compared += run_python(block, names)",
            "assert compared == 5, compared",
            "print('all right')",
        ]
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=280, check=False,
        env={**cluster.environment, "PYTHONPATH": str(REPOSITORY.parent)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-4000:]
    assert "all right" in result.stdout
