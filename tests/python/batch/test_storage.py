"""Data sets and results in an object store: a real S3 server on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from endcap.batch.inputs import list_images, read_shard
from endcap.batch.storage import Storage
from endcap.errors import InvalidArgumentError
from tests.support.data_sets import write_data_set

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with the bucket `data`; the options of its locations."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    options = f"?scheme=http&endpoint_override={host}:{port}&allow_bucket_creation=true"
    storage = Storage(f"s3://data{options}")
    storage.filesystem.create_dir("data")
    yield options
    server.stop()


def upload(folder: Path, options: str) -> None:
    storage = Storage(f"s3://data/photos{options}")
    for path in sorted(folder.iterdir()):
        storage.write(f"{storage.path}/{path.name}", path.read_bytes())


def test_images_of_a_bucket(tmp_path: Path, s3: str) -> None:
    write_data_set(tmp_path / "photos", 5)
    upload(tmp_path / "photos", s3)
    listing = list_images([f"s3://data/photos{s3}"])
    images = [image for shard in listing.shards for image in read_shard(shard)]
    assert [image.path for image in images] == [f"s3://data/photos/{n:05}.jpg" for n in range(5)]
    assert [image.data for image in images] == [
        (tmp_path / "photos" / f"{n:05}.jpg").read_bytes() for n in range(5)
    ]


def test_a_parquet_file_in_a_bucket(s3: str) -> None:
    storage = Storage(f"s3://data/list.parquet{s3}")
    with storage.filesystem.open_output_stream(storage.path) as file:
        pq.write_table(pa.table({"image": [b"one", b"two"]}), file)
    listing = list_images([f"s3://data/list.parquet{s3}"])
    images = [image for shard in listing.shards for image in read_shard(shard)]
    assert [image.data for image in images] == [b"one", b"two"]
    assert images[1].path == "s3://data/list.parquet#1"


def test_a_file_is_written_through_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "part.parquet").symlink_to(victim)
    with pytest.raises(InvalidArgumentError, match="link"):
        Storage(str(tmp_path)).write(str(tmp_path / "part.parquet"), b"ours")
    assert victim.read_text() == "mine"


@pytest.mark.slow
def test_a_run_from_bucket_to_bucket(tmp_path: Path, s3: str) -> None:
    write_data_set(tmp_path / "photos", 20, damaged=1)
    upload(tmp_path / "photos", s3)
    command = [
        sys.executable, "-m", "endcap", "batch", f"s3://data/photos{s3}", "--repository",
        str(REPOSITORY), "--output", f"s3://data/results{s3}", "--json",
    ]  # fmt: skip
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, env={**os.environ}
    )
    assert result.returncode == 1, result.stderr  # an image failed
    summary = json.loads(result.stdout)
    assert summary["statuses"] == {"ok": 19, "corrupt_image": 1}
    storage = Storage(f"s3://data/results{s3}")
    tables = [
        pq.read_table(path, filesystem=storage.filesystem)
        for path in storage.files(storage.path)
        if path.endswith(".parquet")
    ]
    paths = [path for table in tables for path in table["path"].to_pylist()]
    assert sorted(paths) == [f"s3://data/photos/{n:05}.jpg" for n in range(20)]
    again = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert json.loads(again.stdout)["processed"] == 0, again.stderr
